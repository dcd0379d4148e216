"""What a worker has loaded is not looked at again; garbage that tasks make later is collected."""

import subprocess
import sys
from textwrap import dedent


def test_only_what_is_loaded_at_the_first_call_is_exempt() -> None:
    # In a process of its own: nothing takes back what the call does.
    program = """
        import gc
        import weakref

        from tailrace.pipeline.loaded_modules import exempt_loaded_modules

        class Ring:
            def __init__(self):
                self.own = self

        before = weakref.ref(Ring())
        exempt_loaded_modules()
        exempt = gc.get_freeze_count()
        after = weakref.ref(Ring())
        exempt_loaded_modules()
        again = gc.get_freeze_count()
        gc.collect()
        print(before() is None, exempt > 1000, again == exempt, after() is None)
    """
    done = subprocess.run([sys.executable, "-c", dedent(program)], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["True"] * 4

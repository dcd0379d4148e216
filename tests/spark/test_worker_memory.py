"""What the garbage collector of a worker looks at."""

import subprocess
import sys

TASKS = """
import gc, weakref
from tailrace.spark.workers import spare_imports

class Node:
    pass

before = len(gc.get_objects())
spare_imports()
print(before > 10_000, len(gc.get_objects()) < 1_000)
node = Node()
node.itself = node
seen = weakref.ref(node)
del node
spare_imports()
gc.collect()
print(seen() is None)
"""


def test_imported_modules_are_spared_and_garbage_is_freed() -> None:
    done = subprocess.run([sys.executable, "-c", TASKS], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["True", "True", "True"]

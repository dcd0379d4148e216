#!/bin/sh
# The Python of Spark's workers on this machine, TAILRACE_PYTHON. Spark puts archives with the source of PySpark
# first on its path, and each process would compile them again, which takes half a second. The environment of
# this Python has the same PySpark, compiled.
set -f
IFS=:
path=
for entry in $PYTHONPATH; do
    case $entry in
    */python/lib/pyspark.zip | */python/lib/py4j-*-src.zip) ;;
    *) path=${path:+$path:}$entry ;;
    esac
done
export PYTHONPATH="$path"
exec "$TAILRACE_PYTHON" "$@"

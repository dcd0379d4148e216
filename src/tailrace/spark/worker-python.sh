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
# A task takes and frees the same amounts of memory again and again. Asking the system for its pages each time
# takes a tenth of a task's processor time, so glibc and Arrow's allocator keep them.
export MALLOC_TRIM_THRESHOLD_="${MALLOC_TRIM_THRESHOLD_:-1073741824}"
export MALLOC_MMAP_THRESHOLD_="${MALLOC_MMAP_THRESHOLD_:-1073741824}"
export MIMALLOC_PURGE_DELAY="${MIMALLOC_PURGE_DELAY:--1}"
exec "$TAILRACE_PYTHON" "$@"

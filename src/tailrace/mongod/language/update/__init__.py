"""Updates: operators, replacement documents and pipelines, compiled once and applied to documents."""

from tailrace.mongod.language.update.compile import Update, compile_update
from tailrace.mongod.language.update.operator import UpdateResult

__all__ = ["Update", "UpdateResult", "compile_update"]

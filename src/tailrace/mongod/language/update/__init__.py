"""Updates: operators, replacement documents and pipelines, compiled once and applied to documents."""

from tailrace.mongod.language.update.compile import Update, compile_update
from tailrace.mongod.language.update.operator import UpdateResult
from tailrace.mongod.language.update.pipeline import check_stages

__all__ = ["Update", "UpdateResult", "check_stages", "compile_update"]

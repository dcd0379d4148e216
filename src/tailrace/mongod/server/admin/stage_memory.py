"""The memory of a node's blocking stages: its limits are server parameters."""

from pathlib import Path

from tailrace.mongod.language.aggregation.memory.budget import Limits, MemoryTotal, StageMemory
from tailrace.mongod.language.aggregation.memory.spill_folder import NAME, SpillFolder
from tailrace.mongod.server.admin.parameters import SORT_MEMORY, TOTAL_MEMORY, Parameters


class NodeMemory:
    """What the stages of all commands of a node may use."""

    def __init__(self, parameters: Parameters, data: Path | None) -> None:
        """``data`` is the data directory; without one, a temporary folder is used."""
        self._parameters = parameters
        self.total = MemoryTotal()
        self.folder = SpillFolder(None if data is None else data / NAME)
        self.disk_refused = 0
        """How many commands had `allowDiskUse: false`."""
        self._limits = Limits()
        self._read("")
        parameters.on_change.append(self._read)

    def _read(self, _name: str) -> None:
        value = self._parameters.__getitem__
        self.total.most = value(TOTAL_MEMORY)
        self._limits = Limits(
            sort=value(SORT_MEMORY),
            group=value("internalDocumentSourceGroupMaxMemoryBytes"),
            window=value("internalDocumentSourceSetWindowFieldsMaxMemoryBytes"),
            densify=value("internalDocumentSourceDensifyMaxMemoryBytes"),
            facet_output=value("internalQueryFacetMaxOutputDocSizeBytes"),
            lookup=value("internalLookupStageIntermediateDocumentMaxSizeBytes"),
            push=value("internalQueryMaxPushBytes"),
            add_to_set=value("internalQueryMaxAddToSetBytes"),
            top=value("internalQueryTopNAccumulatorBytes"),
        )

    def of_command(self, *, may_use_disk: bool | None) -> StageMemory:
        """What one command may use; None: the server parameter decides about the disk."""
        if may_use_disk is None:
            may_use_disk = bool(self._parameters["allowDiskUseByDefault"])
        return StageMemory(self._limits, may_use_disk, self.total, self.folder)

    def close(self) -> None:
        """Remove the folder."""
        self.folder.close()

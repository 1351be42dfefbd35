"""The setting for a start of a standalone server whose metadata and ledgers do not fit each other."""

from dataclasses import dataclass

ACCEPT_NOTHING = -1


@dataclass(frozen=True, slots=True)
class MetadataSettings:
    """The operator's settings for a start with metadata and ledgers that do not fit each other."""

    accept_metadata_generation: int = ACCEPT_NOTHING
    """acceptMetadataGeneration: metadata of this generation is accepted. The message of a refused start names the
    generation. A value that stays in the configuration accepts no later metadata, because the generation grows."""

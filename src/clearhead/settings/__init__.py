"""What a user may ask for. Each dataclass is the Python arguments, the flags, the help and the docs of a
verb."""

from clearhead.settings.asking import Asking, Empty, Format, Loading, Long, Opening, Reading, Writing
from clearhead.settings.fill import FILLERS, Answering, Encoder, Filling, Hidden, Masked
from clearhead.settings.generating import Generating
from clearhead.settings.language import Corpus, Documents, Encode, Language, Scoring, Speaker
from clearhead.settings.learning import (
    BALANCED,
    HEAVIEST,
    LIGHTEST,
    Decay,
    Kind,
    Learning,
    Making,
    Measures,
    Problems,
    Training,
    Vocabulary,
    named_weights,
)
from clearhead.settings.options import (
    a_path,
    at_home,
    at_least,
    check_values,
    fitted,
    flag,
    hints_of,
    made,
    option,
    required,
)

__all__ = [
    "BALANCED", "FILLERS", "HEAVIEST", "LIGHTEST", "Answering", "Asking", "Corpus", "Decay", "Documents",
    "Empty", "Encode", "Encoder", "Filling", "Format", "Generating", "Hidden", "Kind", "Language", "Learning",
    "Loading", "Long", "Making", "Masked", "Measures", "Opening", "Problems", "Reading", "Scoring", "Speaker",
    "Training", "Vocabulary", "Writing", "a_path", "at_home", "at_least", "check_values", "fitted", "flag",
    "hints_of", "made", "named_weights", "option", "required",
]  # fmt: skip

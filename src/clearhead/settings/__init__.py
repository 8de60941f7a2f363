"""What a user may ask for. Each dataclass is the Python arguments, the flags, the help and the docs of a
verb."""

from clearhead.settings.asking import Asking, Empty, Format, Loading, Long, Opening, Reading, Writing
from clearhead.settings.generating import Generating
from clearhead.settings.language import Documents, Language, Scoring, Speaker
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
    "BALANCED", "HEAVIEST", "LIGHTEST", "Asking", "Decay", "Documents", "Empty", "Format", "Generating",
    "Kind", "Language", "Learning", "Loading", "Long", "Making", "Measures", "Opening", "Problems", "Reading",
    "Scoring", "Speaker", "Training", "Vocabulary", "Writing", "a_path", "at_home", "at_least",
    "check_values", "fitted", "flag", "hints_of", "made", "named_weights", "option", "required",
]  # fmt: skip

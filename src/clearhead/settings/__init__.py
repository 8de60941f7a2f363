"""What a user may ask for. Each dataclass is the Python arguments, the flags, the help and the docs of a
verb."""

from clearhead.settings.answer import FINDERS, Answerer, Finding
from clearhead.settings.asking import Asking, Empty, Format, Loading, Long, Opening, Reading, Writing
from clearhead.settings.embed import VECTORS, Contrasting, Embedded, Pairing, Searching, Vectors
from clearhead.settings.explain import Explaining
from clearhead.settings.fill import FILLERS, Answering, Encoder, Filling, Hidden, Masked, Scored
from clearhead.settings.generating import PAIRS, Generating
from clearhead.settings.grading import Grading
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
    some_of,
)
from clearhead.settings.sentences import Sentences
from clearhead.settings.tag import Tagging
from clearhead.settings.translate import Comparing, Parallel, Translating, Translator

__all__ = [
    "BALANCED",
    "FILLERS",
    "FINDERS",
    "HEAVIEST",
    "LIGHTEST",
    "PAIRS",
    "VECTORS",
    "WORDS",
    "Answerer",
    "Answering",
    "Asking",
    "Comparing",
    "Contrasting",
    "Corpus",
    "Decay",
    "Documents",
    "Embedded",
    "Empty",
    "Encode",
    "Encoder",
    "Explaining",
    "Filling",
    "Finding",
    "Format",
    "Generating",
    "Grading",
    "Hidden",
    "Kind",
    "Language",
    "Learning",
    "Loading",
    "Long",
    "Making",
    "Masked",
    "Measures",
    "Opening",
    "Pairing",
    "Parallel",
    "Problems",
    "Reading",
    "Scored",
    "Scoring",
    "Searching",
    "Sentences",
    "Speaker",
    "Tagging",
    "Training",
    "Translating",
    "Translator",
    "Vectors",
    "Vocabulary",
    "Writing",
    "a_path",
    "at_home",
    "at_least",
    "check_values",
    "fitted",
    "flag",
    "hints_of",
    "made",
    "named_weights",
    "option",
    "required",
    "some_of",
]  # fmt: skip

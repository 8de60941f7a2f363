"""What tokenizer_config.json says over tokenizer.json counts as in the published reader, or is refused."""

import json

import pytest
from test_text_published import check
from text_folders import (
    WORDS,
    bert_folder,
    bert_rules,
    byte_vocabulary,
    fairseq_unigram,
    files,
    roberta_folder,
    roberta_rules,
    rules_folder,
    unigram,
)
from tokenizers import AddedToken, normalizers, pre_tokenizers, processors
from transformers import AutoTokenizer

from clearhead.errors import FolderError
from clearhead.text import Tokenizer

NO_TRIE = "AAQAAA=="  # 1,024 bytes are announced, and none follow
AS_IT_STANDS = {"tokenizer_class": "PreTrainedTokenizerFast"}
TEXTS = ["Café the cat", "cafe\u0301 中文a", " the  zzz catzzz ", "please [SEP] as is"]


def agree(folder, texts=TEXTS, **limits):
    """Our reader, after the ids were found to be the published ones."""
    ours, published = Tokenizer.read(folder), AutoTokenizer.from_pretrained(folder, split_special_tokens=True)
    for item in [*texts, (texts[0], texts[1]), (texts[1], texts[2])]:
        check("this", {"this": (ours, published)}, item, **limits)
    ours.write(folder / "again")
    again = Tokenizer.read(folder / "again")
    assert again.encode(texts, limit=7) == ours.encode(texts, limit=7)
    return ours


@pytest.mark.parametrize("stored", [True, False])
@pytest.mark.parametrize(
    "config",
    [
        {"tokenizer_class": "BertTokenizer"},  # says nothing of case: the class lower-cases
        {"tokenizer_class": "BertTokenizerFast", "do_lower_case": False},
        {"tokenizer_class": "DistilBertTokenizer", "strip_accents": True, "do_lower_case": False},
        {"tokenizer_class": "BertTokenizer", "strip_accents": False, "tokenize_chinese_chars": False},
        {**AS_IT_STANDS, "do_lower_case": False, "strip_accents": True},  # whose options are not its own
        {**AS_IT_STANDS, "do_lower_case": True, "tokenize_chinese_chars": False},
        {"tokenizer_class": "SomethingElse", "do_lower_case": True},
    ],
    ids=str,
)
def test_case_and_accents(stored, config, tmp_path):
    agree(rules_folder(bert_rules(lowercase=stored), tmp_path, **config))


@pytest.mark.parametrize("stored", [True, False])
@pytest.mark.parametrize(
    "config",
    [
        {"tokenizer_class": "RobertaTokenizer"},
        {"tokenizer_class": "RobertaTokenizer", "add_prefix_space": True},
        {"tokenizer_class": "BartTokenizerFast", "add_prefix_space": False, "trim_offsets": False},
        {
            "tokenizer_class": "GPT2Tokenizer",
            "add_prefix_space": True,
            "unk_token": "<unk>",
            "bos_token": "<s>",
        }
        | {"eos_token": "</s>", "add_bos_token": True},
        {**AS_IT_STANDS, "add_prefix_space": True, "add_bos_token": True},
    ],
    ids=str,
)
def test_a_leading_space_and_begin_tokens(stored, config, tmp_path):
    agree(rules_folder(roberta_rules(prefix=stored), tmp_path, **config))


@pytest.mark.parametrize("prefix", [True, False])
def test_a_leading_space_in_sentencepiece(prefix, tmp_path):
    folder = rules_folder(
        fairseq_unigram(), tmp_path, tokenizer_class="XLMRobertaTokenizer", add_prefix_space=prefix
    )
    agree(folder, texts=["the cat", " cat  the ", "thecat"])


def test_roberta_offsets_are_trimmed_as_published(tmp_path):
    folder = roberta_folder(tmp_path)
    ours, published = Tokenizer.read(folder), AutoTokenizer.from_pretrained(folder)
    for text in ("the  cat sat", "  the cat ", "a ↻ é"):
        expected = published(text, return_offsets_mapping=True)["offset_mapping"]
        assert list(ours.encode([text])[0].offsets) == expected


@pytest.mark.parametrize("limit", [5, 6, 7, 8, 9])
def test_texts_are_cut_at_the_left_where_the_folder_says_so(limit, tmp_path):
    ours = agree(
        bert_folder(tmp_path, tokenizer_class="BertTokenizer", truncation_side="left"),
        max_length=limit,
        truncation="longest_first",
    )
    assert ours.truncation_side == "left"
    (found,) = ours.encode(["the cat sat on the mat"], limit=4)
    assert [ours.name(id) for id in found.ids] == ["[CLS]", "the", "mat", "[SEP]"]
    assert found.offsets == ((0, 0), (15, 18), (19, 22), (0, 0))
    assert found.dropped == 4


@pytest.mark.parametrize("inputs", [None, ["input_ids", "attention_mask"], ["input_ids", "token_type_ids"]])
@pytest.mark.parametrize(
    "name", ["BertTokenizer", "DistilBertTokenizerFast", "ElectraTokenizer", "PreTrainedTokenizerFast", None]
)
def test_the_second_text_is_in_a_segment_of_its_own_only_where_the_model_is_given_segments(
    name, inputs, tmp_path
):
    said = {"tokenizer_class": name, "model_input_names": inputs}
    config = {field: value for field, value in said.items() if value}
    folder = rules_folder(bert_rules(), tmp_path, **config, model_type=None if name else "electra")
    ours = agree(folder)
    several = "token_type_ids" in (inputs or ()) or (
        not inputs and name in ("BertTokenizer", "ElectraTokenizer", None)
    )
    assert set(ours.encode([("the", "cat")])[0].segments) == ({0, 1} if several else {0})
    assert Tokenizer.read(folder / "again").same(ours)


def test_a_side_stored_with_a_truncation_counts_unless_the_configuration_names_one(tmp_path):
    core = bert_rules()
    core.enable_truncation(9, direction="left")
    folder = rules_folder(core, tmp_path / "a", **AS_IT_STANDS)
    assert agree(folder, max_length=6, truncation="longest_first").truncation_side == "left"
    folder = rules_folder(core, tmp_path / "b", **AS_IT_STANDS, truncation_side="right")
    assert agree(folder, max_length=6, truncation="longest_first").truncation_side == "right"


@pytest.mark.parametrize("decoder", [False, True])
def test_the_older_map_counts_unless_the_configuration_lists_the_added_tokens(decoder, tmp_path):
    config = {"tokenizer_class": "BertTokenizer", "sep_token": "is"}
    if decoder:
        config["added_tokens_decoder"] = {"0": {"content": "[PAD]", "special": True}}
    bert_folder(tmp_path, **config)
    files(tmp_path, special_tokens_map_json={"sep_token": "or", "cls_token": {"content": "as"}})
    ours = agree(tmp_path, texts=TEXTS[:3])
    assert ours.tokens("the") == (["[CLS]", "the", "is"] if decoder else ["as", "the", "or"])


@pytest.mark.parametrize("in_rules", [True, False])
def test_added_tokens_of_the_configuration_match_texts_as_published(in_rules, tmp_path):
    count = len(WORDS)
    added = {
        str(count): {"content": "zzz", "special": False, "normalized": True},
        str(count + 1): {"content": "Yyy", "special": False, "lstrip": True, "single_word": True},
        str(WORDS.index("as")): {"content": "as", "special": False},
        str(count + 2): {"content": "[X]", "special": True},
    }
    config = {"tokenizer_class": "BertTokenizer", "added_tokens_decoder": added}
    if in_rules:
        core = bert_rules()
        core.add_tokens(["zzz", AddedToken("Yyy", rstrip=True)])
        rules_folder(core, tmp_path, **config)
    else:
        bert_folder(tmp_path, **config)
    ours = agree(tmp_path, texts=[*TEXTS, "the Yyy mat zzzas Yyys", "[X] the"])
    assert ours.vocab_size == count + 3
    assert count + 2 in ours.control_ids


def test_an_added_token_that_cannot_get_its_id_is_refused(tmp_path):
    bert_folder(tmp_path, added_tokens_decoder={"99": {"content": "zzz"}})
    with pytest.raises(FolderError, match=r"added token 'zzz' should have id 99 but gets 65"):
        Tokenizer.read(tmp_path)
    bert_folder(tmp_path, added_tokens_decoder=[{"content": "zzz"}])
    with pytest.raises(FolderError, match=r"added_tokens_decoder must be an object of tokens by id"):
        Tokenizer.read(tmp_path)


ROBERTA_FRAME = processors.RobertaProcessing(("[SEP]", 3), ("[CLS]", 2))


@pytest.mark.parametrize(
    ("core", "part", "new", "name"),
    [
        (bert_rules(), "normalizer", normalizers.NFC(), "BertTokenizer"),
        (bert_rules(), "normalizer", normalizers.BertNormalizer(clean_text=False), "BertTokenizer"),
        (bert_rules(), "pre_tokenizer", pre_tokenizers.Whitespace(), "DistilBertTokenizer"),
        (bert_rules(), "post_processor", ROBERTA_FRAME, "BertTokenizer"),
        (roberta_rules(), "normalizer", normalizers.NFC(), "RobertaTokenizer"),
        (roberta_rules(), "pre_tokenizer", pre_tokenizers.ByteLevel(use_regex=False), "RobertaTokenizer"),
        (fairseq_unigram(), "normalizer", normalizers.Replace("``", "'"), "XLMRobertaTokenizer"),
    ],
)
def test_rules_that_the_published_reader_would_drop_are_refused_with_the_way_to_keep_them(
    core, part, new, name, tmp_path
):
    setattr(core, part, new)
    with pytest.raises(FolderError, match=rf"its {part} is not that of {name}.*to PreTrainedTokenizerFast"):
        Tokenizer.read(rules_folder(core, tmp_path, tokenizer_class=name))
    agree(rules_folder(core, tmp_path, **AS_IT_STANDS))


@pytest.mark.parametrize(
    ("option", "value"), [("max_input_chars_per_word", 7), ("continuing_subword_prefix", "@@")]
)
def test_a_model_that_the_published_reader_would_change_is_refused(option, value, tmp_path):
    rules = json.loads(bert_rules().to_str())
    rules["model"][option] = value
    files(tmp_path, tokenizer_json=rules, tokenizer_config_json={"tokenizer_class": "BertTokenizer"})
    with pytest.raises(FolderError, match=rf"its {option} is not that of BertTokenizer"):
        Tokenizer.read(tmp_path)


@pytest.mark.parametrize("name", ["XLMRobertaTokenizer", "CamembertTokenizer"])
@pytest.mark.parametrize(
    ("unknown", "config"), [(0, {}), (2, {}), (5, {}), (3, {"unk_token": "<mask>"}), (3, {"unk_token": "at"})]
)
def test_another_unknown_token_than_the_published_reader_takes_is_refused(name, unknown, config, tmp_path):
    rules = json.loads(fairseq_unigram().to_str())
    rules["model"]["unk_id"] = unknown
    files(tmp_path, tokenizer_json=rules, tokenizer_config_json={"tokenizer_class": name} | config)
    with pytest.raises(FolderError, match=f"its unk_id is not that of {name}.*PreTrainedTokenizerFast"):
        Tokenizer.read(tmp_path)


@pytest.mark.parametrize(
    "asked", [{}, {"add_bos_token": True}, {"add_bos_token": True, "add_eos_token": True}]
)
@pytest.mark.parametrize("frame", [None, processors.ByteLevel()])
def test_what_tokenizer_json_puts_around_texts_counts_more_than_the_options_of_gpt2(frame, asked, tmp_path):
    core = roberta_rules()
    rules = json.loads(core.to_str())
    rules["post_processor"] = None
    if frame is not None:
        core.post_processor = frame
        rules = json.loads(core.to_str())
    roles = {"bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>"}
    files(
        tmp_path, tokenizer_json=rules,
        tokenizer_config_json={"tokenizer_class": "GPT2Tokenizer"} | roles | asked,
    )  # fmt: skip
    agree(tmp_path)


@pytest.mark.parametrize(
    ("config", "words"),
    [
        (
            {"model_input_names": "input_ids"},
            r"model_input_names='input_ids' is not known; use a list such as",
        ),
        ({"truncation_side": "middle"}, r"truncation_side='middle' is not known; use 'left' or 'right'"),
        (
            {"fast_tokenizer_files": ["tokenizer.4.0.json"]},
            r"fast_tokenizer_files names a file for each version",
        ),
        ({"strip_accents": "no"}, r"strip_accents='no' is not known"),
        ({"tokenize_chinese_chars": 1}, r"tokenize_chinese_chars=1 is not known; use true or false"),
    ],
)
def test_an_option_that_makes_no_sense_is_refused(config, words, tmp_path):
    with pytest.raises(FolderError, match=words):
        Tokenizer.read(bert_folder(tmp_path, **config))


def test_a_sentencepiece_model_of_no_known_class_is_refused_with_the_way_to_convert_it(tmp_path):
    (tmp_path / "tokenizer.model").write_bytes(b"\n\x0e\n\x05<unk>")
    files(tmp_path, config_json={"model_type": "llama"})
    with pytest.raises(
        FolderError, match=r"tokenizer.model is a sentencepiece model.*for T5Tokenizer.*save_pretrained"
    ):
        Tokenizer.read(tmp_path)


def test_a_unigram_model_without_an_unknown_token_is_refused(tmp_path):
    rules = json.loads(unigram().to_str())
    rules["model"]["unk_id"] = None
    files(tmp_path, tokenizer_json=rules)
    with pytest.raises(FolderError, match=r"the Unigram model has no unk_id.*set unk_id to the place"):
        Tokenizer.read(tmp_path)


def test_byte_level_files_without_a_class_are_refused_with_the_classes_there_are(tmp_path):
    files(tmp_path, vocab_json=byte_vocabulary(), merges_txt="")
    with pytest.raises(FolderError, match=r"does not say which class.*RobertaTokenizer.*GPT2Tokenizer"):
        Tokenizer.read(tmp_path)
    files(tmp_path, config_json={"model_type": "deberta"})
    with pytest.raises(FolderError, match=r"belongs to a model of type deberta"):
        Tokenizer.read(tmp_path)


@pytest.mark.parametrize(
    ("vocabulary", "merges", "words"),
    [
        ("{", "", r"vocab.json cannot be read as JSON"),
        ("[]", "", r"vocab.json must give each token an id of its own"),
        ('{"a": 0, "b": 0}', "", r"vocab.json must give each token an id of its own"),
        ('{"a": "0"}', "", r"vocab.json must give each token an id of its own"),
        ('{"a": -1}', "", r"vocab.json must give each token an id of its own"),
        (None, "#version: 0.2\nt h\nq z\n", r"merges.txt, line 3: 'q z' does not merge two tokens"),
        (None, "t h e\n", r"merges.txt, line 1: 't h e' does not merge"),
        (None, "th\n", r"merges.txt, line 1: 'th' does not merge"),
    ],
)
def test_a_broken_vocabulary_is_refused_by_file_and_line(vocabulary, merges, words, tmp_path):
    roberta_folder(tmp_path)
    (tmp_path / "merges.txt").write_text(merges)
    if vocabulary is not None:
        (tmp_path / "vocab.json").write_text(vocabulary)
    with pytest.raises(FolderError, match=words):
        Tokenizer.read(tmp_path)


def test_windows_line_ends_in_merges_do_not_matter(tmp_path):
    roberta_folder(tmp_path)
    before = Tokenizer.read(tmp_path).encode(TEXTS)
    merges = (tmp_path / "merges.txt").read_bytes()
    (tmp_path / "merges.txt").write_bytes(merges.replace(b"\n", b"\r\n"))
    assert Tokenizer.read(tmp_path).encode(TEXTS) == before


@pytest.mark.parametrize("lower", [True, False])
def test_an_added_token_is_found_after_the_classes_normaliser(lower, tmp_path):
    core = bert_rules(lowercase=not lower)
    core.add_tokens([AddedToken("Yyy", normalized=True), AddedToken("Zzz", normalized=False)])
    folder = rules_folder(core, tmp_path, tokenizer_class="BertTokenizer", do_lower_case=lower)
    ours = agree(folder, texts=["the Yyy yyy cat Zzz zzz", "yyyx", "aYyy"])
    assert len(WORDS) in ours.encode(["the Yyy"])[0].ids


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("tokenizer.json", {"added_tokens": [5], "model": {}}, r"does not describe a tokenizer"),
        ("tokenizer.json", {"added_tokens": 5, "model": 5}, r"does not describe a tokenizer"),
        ("added_tokens.json", {"zzz": "x"}, r"added_tokens_decoder must be an object of tokens by id"),
        ("added_tokens.json", {"zzz": 65.5}, r"added_tokens_decoder must be an object of tokens by id"),
        ("added_tokens.json", {"": 65}, r"added token '' should have id 65 but gets None"),
        ("config.json", {"model_type": ["bert"], "tokenizer_class": {}}, None),
        (
            "tokenizer_config.json",
            {"added_tokens_decoder": {"65": {"content": "z", "lstrip": "yes"}}},
            r"is no token; write a string, or an object with a content",
        ),
        ("tokenizer_config.json", {"added_tokens_decoder": {"x": "z"}}, r"must be an object of tokens by id"),
        ("tokenizer_config.json", {"tokenizer_class": 5, "truncation_side": None}, r"truncation_side=None"),
        ("tokenizer_config.json", {"unk_token": None}, r"vocabulary lacks None"),
    ],
)
def test_files_of_other_shapes_are_refused_without_a_traceback(name, content, words, tmp_path):
    bert_folder(tmp_path)
    (tmp_path / name).write_text(json.dumps(content))
    if words is None:
        assert Tokenizer.read(tmp_path).tokens("the")[1] == "the"
    else:
        with pytest.raises(FolderError, match=words):
            Tokenizer.read(tmp_path)


def test_a_special_token_may_be_an_added_one(tmp_path):
    words = [word for word in WORDS if word != "[SEP]"]
    added = {str(len(words)): {"content": "[SEP]", "special": True}}
    bert_folder(tmp_path, words, tokenizer_class="BertTokenizer", added_tokens_decoder=added)
    assert agree(tmp_path, texts=TEXTS[:3]).encode(["the"])[0].ids[-1] == len(words)


@pytest.mark.parametrize("table", ["", "AAAA", "x", 5, None, "////fwAA", NO_TRIE])
def test_a_broken_table_of_replacements_is_refused_before_the_library_dies_of_it(table, tmp_path):
    rules = json.loads(fairseq_unigram().to_str())
    rules["normalizer"]["precompiled_charsmap"] = table
    files(tmp_path, tokenizer_json=rules)
    with pytest.raises(FolderError, match="precompiled_charsmap of the normalizer is broken"):
        Tokenizer.read(tmp_path)


def test_a_template_with_a_token_that_it_does_not_define_is_refused(tmp_path):
    rules = json.loads(bert_rules().to_str())
    del rules["post_processor"]["special_tokens"]["[SEP]"]
    for frame in (rules["post_processor"], {"type": "Sequence", "processors": [rules["post_processor"]]}):
        files(tmp_path, tokenizer_json={**rules, "post_processor": frame})
        with pytest.raises(FolderError, match=r"the template names '\[SEP\]', which its special_tokens lack"):
            Tokenizer.read(tmp_path)

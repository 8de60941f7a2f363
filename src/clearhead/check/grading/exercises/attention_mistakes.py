"""What is done wrong in self-attention, with and without the scale."""

from clearhead.check.grading.exercise import Mistake, table

SHARED = table(
    (
        "over-outputs",
        "softmax",
        "Softmax runs over the outputs n, so the attentions that one key gives sum to one.",
        "It runs over the keys m: the attentions that one output takes sum to one (columns of KᵀQ, axis 0).",
    ),
    (
        "over-everything",
        "softmax",
        "One softmax runs over the whole matrix.",
        "Every output has a softmax of its own, over the keys.",
    ),
    (
        "no-softmax",
        "softmax",
        "The dot products weigh the values as they are.",
        "They go through softmax first, so that the weights are positive and sum to one.",
    ),
    (
        "queries-and-keys-swapped",
        "products",
        "The dot products are QᵀK: queries stand where keys belong.",
        "They are KᵀQ: row m is key m, column n is query n.",
    ),
    (
        "keys-as-queries",
        "products",
        "Keys are multiplied with keys.",
        "Queries have their own Ωq and βq, and are multiplied with keys.",
    ),
    (
        "queries-as-keys",
        "products",
        "Queries are multiplied with queries.",
        "Keys have their own Ωk and βk, and are multiplied with queries.",
    ),
    (
        "attention-transposed",
        "routing",
        "The values are multiplied with the transposed attentions.",
        "Output n is Σ_m a[x_m, x_n] v_m: the columns of V weighted by column n of the attentions.",
    ),
    (
        "values-not-projected",
        "values",
        "The inputs themselves are weighted.",
        "The values β_v + Ω_v x are weighted.",
    ),
    (
        "keys-as-values",
        "values",
        "The keys are weighted.",
        "The values β_v + Ω_v x are weighted.",
    ),
    (
        "weights-transposed",
        "weights",
        "The inputs are multiplied by the transposed Ω.",
        "It is Ωx: every row of Ω gives one number of the result.",
    ),
    (
        "no-value-bias",
        "bias",
        "β_v is left out of the values.",
        "v_m = β_v + Ω_v x_m.",
    ),
    (
        "no-query-bias",
        "bias",
        "β_q is left out of the queries.",
        "q_n = β_q + Ω_q x_n.",
    ),
    (
        "no-biases",
        "bias",
        "β_v, β_q and β_k are all left out.",
        "Values, queries and keys each have a bias: β + Ωx.",
    ),
    (
        "input-added",
        "sum",
        "The input is added to the output.",
        "That is the residual connection, which a block adds around attention; it is no part of it.",
    ),
)
UNSCALED = (
    Mistake(
        "scaled",
        "The dot products are divided by √D.",
        "Plain dot-product attention does not scale; that is equation 12.9, the next exercise.",
        "scale",
    ),
    Mistake("divided-by-width", "The dot products are divided by D.", "They are taken as they are.", "scale"),
)
SCALED = table(
    (
        "not-scaled",
        "scale",
        "The dot products go into softmax as they are.",
        "They are divided by √D_q first, the root of how many numbers a query has.",
    ),
    (
        "divided-by-width",
        "scale",
        "The dot products are divided by D_q.",
        "They are divided by its root, √D_q.",
    ),
    (
        "multiplied-by-root",
        "scale",
        "The dot products are multiplied by √D_q.",
        "They are divided by it, which makes softmax less extreme.",
    ),
    (
        "divided-by-root-of-tokens",
        "scale",
        "The dot products are divided by √N, the root of the number of inputs.",
        "They are divided by √D_q: how many inputs there are does not matter.",
    ),
    (
        "scaled-after-softmax",
        "scale",
        "The attentions are divided by √D_q after softmax.",
        "The dot products are divided before it; after it the weights would no longer sum to one.",
    ),
)

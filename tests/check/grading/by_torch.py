"""Right solutions in PyTorch."""

import torch
from torch.nn import functional


def softmax(items_in):
    return torch.softmax(torch.stack([torch.as_tensor(item).reshape(()) for item in items_in]), dim=0)


def softmax_cols(data_in):
    return torch.softmax(data_in, dim=0)


def self_attention_by_vector(all_x, omega_v, omega_q, omega_k, beta_v, beta_q, beta_k):
    X = torch.cat(list(all_x), dim=1)
    result = self_attention(X, omega_v, omega_q, omega_k, beta_v, beta_q, beta_k)
    return [column[:, None] for column in result.T]


def self_attention(X, omega_v, omega_q, omega_k, beta_v, beta_q, beta_k, scale=1.0):
    queries, keys, values = (
        functional.linear(X.T, omega, beta[:, 0]).requires_grad_()
        for omega, beta in ((omega_q, beta_q), (omega_k, beta_k), (omega_v, beta_v))
    )
    return functional.scaled_dot_product_attention(queries, keys, values, scale=scale).T


def scaled_dot_product_self_attention(X, omega_v, omega_q, omega_k, beta_v, beta_q, beta_k):
    return self_attention(X, omega_v, omega_q, omega_k, beta_v, beta_q, beta_k, scale=len(omega_q) ** -0.5)


def multihead_scaled_self_attention(X, *given):
    heads = [scaled_dot_product_self_attention(X, *given[start : start + 6]) for start in (0, 6)]
    return torch.matmul(given[12], torch.vstack(heads))


def layer_norm(x, eps=1e-5):
    return functional.layer_norm(x, x.shape[-1:], eps=eps)


def greedy(logits):
    return torch.argmax(logits)


def kth_best(logits, k):
    return torch.sort(logits, descending=True).indices[k - 1]


def sample(logits, uniform):
    sums = torch.softmax(logits, 0).cumsum(0)
    return torch.searchsorted(sums, torch.tensor(uniform, dtype=sums.dtype), right=True)


def top_k(logits, k):
    values, places = torch.topk(logits, min(k, len(logits)))
    return torch.full_like(logits, float("-inf")).scatter(0, places, values)


def nucleus(logits, threshold):
    values, places = torch.sort(logits, descending=True)
    shares = torch.softmax(values, 0)
    values = values.masked_fill(shares.cumsum(0) - shares >= threshold, float("-inf"))
    return torch.empty_like(logits).scatter(0, places, values)


def beam_search(log_probabilities, beams, length):
    ids, scores = torch.zeros(1, 1, dtype=torch.long), torch.zeros(1)
    for _ in range(length):
        total = scores[:, None] + log_probabilities[ids[:, -1]]
        scores, best = total.flatten().topk(min(beams, total.numel()))
        ids = torch.cat([ids[best // total.shape[1]], (best % total.shape[1])[:, None]], dim=1)
    return ids[0, 1:].tolist()


def best_hypothesis(totals, lengths, length_penalty):
    return torch.argmax(totals / lengths.pow(length_penalty))


def attended(Q, K, V, **more):
    return functional.scaled_dot_product_attention(Q, K, V, **more)


def causal_attention(Q, K, V):
    return attended(Q, K, V, is_causal=True)


def masked_attention(Q, K, V, mask):
    return attended(Q, K, V, attn_mask=mask.bool()[None].expand(len(Q), -1))


def cross_attention(x, memory, Wq, Wk, Wv):
    return attended(functional.linear(x, Wq), functional.linear(memory, Wk), functional.linear(memory, Wv))


def grouped_attention(Q, K, V):
    group = len(Q) // len(K)
    return attended(Q, K.repeat_interleave(group, 0), V.repeat_interleave(group, 0))


def cached_step(q, k, v, cached_keys, cached_values):
    keys, values = torch.cat([cached_keys, k]), torch.cat([cached_values, v])
    seen = torch.ones(len(q), len(keys)).tril(len(cached_keys)).bool()
    return attended(q, keys, values, attn_mask=seen)


def feed_forward(x, W1, b1, W2, b2):
    return functional.linear(torch.relu(functional.linear(x, W1, b1)), W2, b2)


def gelu(x):
    return functional.gelu(x)


def gelu_tanh(x):
    return functional.gelu(x, approximate="tanh")


def block(x, weights, first, last):
    y = first(x)
    x = last(x + attended(*(functional.linear(y, weight) for weight in weights[:3])))
    return last(x + functional.linear(torch.relu(functional.linear(first(x), weights[3])), weights[4]))


def encoder_block(x, Wq, Wk, Wv, W1, W2):
    return block(x, (Wq, Wk, Wv, W1, W2), lambda x: x, layer_norm)


def encoder_block_norm_before(x, Wq, Wk, Wv, W1, W2):
    return block(x, (Wq, Wk, Wv, W1, W2), layer_norm, lambda x: x)


def decoder_block(x, memory, Wq, Wk, Wv, Uq, Uk, Uv, W1, W2):
    x = layer_norm(x + causal_attention(x @ Wq.T, x @ Wk.T, x @ Wv.T))
    x = layer_norm(x + cross_attention(x, memory, Uq, Uk, Uv))
    return layer_norm(x + torch.relu(x @ W1.T) @ W2.T)


def sinusoidal_positions(count, width):
    angle = torch.arange(count)[:, None] / 10000 ** (torch.arange(0, width, 2) / width)
    return torch.stack([angle.sin(), angle.cos()], dim=2).flatten(1)


def rotary(x, base=10000.0):
    real, imaginary = x.chunk(2, dim=1)
    pairs = real.shape[1]
    angle = torch.arange(len(x))[:, None] * base ** (-torch.arange(pairs, dtype=x.dtype) / pairs)
    turned = torch.complex(real, imaginary) * torch.polar(torch.ones_like(angle), angle)
    return torch.cat([turned.real, turned.imag], dim=1)


def relative_bias(table, queries, keys):
    most = len(table) // 2
    ahead = torch.arange(keys) - torch.arange(queries)[:, None]
    return table[ahead.clamp(-most, most) + most]


def cross_entropy(logits, labels, smoothing=0.0):
    return functional.cross_entropy(logits, labels, label_smoothing=smoothing, ignore_index=-100)


def next_token_loss(logits, ids):
    return functional.cross_entropy(logits[:-1], ids[1:])


def accumulated_loss(parts):
    return torch.cat(list(parts)).mean()


def inverse_root_rate(step, width, warm_up):
    step, width, warm_up = (torch.tensor(float(one)) for one in (step, width, warm_up))
    return width.rsqrt() * torch.minimum(step.rsqrt(), step * warm_up**-1.5)

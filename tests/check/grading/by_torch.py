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

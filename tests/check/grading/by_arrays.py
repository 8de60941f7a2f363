"""Right solutions in NumPy, written otherwise than the reference."""

from collections import Counter

import numpy as np


def softmax(items_in):
    powers = [np.exp(item - max(float(np.squeeze(one)) for one in items_in)) for item in items_in]
    return [power / sum(powers) for power in powers]


def softmax_cols(data_in):
    shifted = data_in - data_in.max(0)
    return np.exp(shifted - np.log(np.exp(shifted).sum(0)))


def self_attention_by_vector(all_x, omega_v, omega_q, omega_k, beta_v, beta_q, beta_k):
    keys = [beta_k + np.matmul(omega_k, x) for x in all_x]
    outputs = []
    for x in all_x:
        query = beta_q + np.matmul(omega_q, x)
        attention = softmax([np.matmul(key.T, query) for key in keys])
        x_prime = np.zeros_like(x)
        for share, other in zip(attention, all_x):
            x_prime = x_prime + share * (beta_v + np.matmul(omega_v, other))
        outputs.append(x_prime)
    return outputs


def self_attention(X, omega_v, omega_q, omega_k, beta_v, beta_q, beta_k):
    queries, keys, values = (omega_q @ X + beta_q).T, (omega_k @ X + beta_k).T, (omega_v @ X + beta_v).T
    return (softmax_cols((queries @ keys.T).T).T @ values).T


def scaled_dot_product_self_attention(X, omega_v, omega_q, omega_k, beta_v, beta_q, beta_k):
    scale = omega_q.shape[0] ** -0.5
    return self_attention(X, omega_v, omega_q * scale, omega_k, beta_v, beta_q * scale, beta_k)


def multihead_scaled_self_attention(X, *given):
    one, other, omega_c = given[:6], given[6:12], given[12]
    width = len(one[0])
    first = omega_c[:, :width] @ scaled_dot_product_self_attention(X, *one)
    return first + omega_c[:, width:] @ scaled_dot_product_self_attention(X, *other)


def layer_norm(x, eps=1e-5):
    mean = np.mean(x, axis=-1)[..., None]
    variance = np.maximum(np.mean((x - mean) ** 2, axis=-1)[..., None], 0)
    return (x - mean) * (variance + eps) ** -0.5


def tokenize(text, num_merges):
    vocabulary = Counter(" ".join(word) + " </w>" for word in text.split())
    for _ in range(num_merges):
        pairs = Counter()
        for word, count in vocabulary.items():
            tokens = word.split()
            for left, right in zip(tokens, tokens[1:]):
                pairs[left, right] += count
        if not pairs:
            break
        (left, right), _ = pairs.most_common(1)[0]
        renewed = Counter()
        for word, count in vocabulary.items():
            tokens, done = word.split(), []
            while tokens:
                if tokens[:2] == [left, right]:
                    done.append(left + right)
                    del tokens[:2]
                else:
                    done.append(tokens.pop(0))
            renewed[" ".join(done)] += count
        vocabulary = renewed
    tokens = Counter()
    for word, count in vocabulary.items():
        for token in word.split():
            tokens[token] += count
    return tokens, vocabulary


def greedy(logits):
    return np.argmax(np.exp(logits - logits.max()))


def kth_best(logits, k):
    return np.argsort(logits)[::-1][k - 1]


def sample(logits, uniform):
    shares = np.exp(logits) / np.exp(logits).sum()
    return int((np.cumsum(shares) <= uniform).sum())


def top_k(logits, k):
    smallest = np.sort(logits)[::-1][min(k, len(logits)) - 1]
    return np.where(logits >= smallest, logits, -np.inf)


def nucleus(logits, threshold):
    order = np.argsort(-logits)
    shares = np.exp(logits[order]) / np.exp(logits).sum()
    last = np.searchsorted(np.cumsum(shares), threshold)
    result = np.full(logits.shape, -np.inf)
    result[order[: last + 1]] = logits[order[: last + 1]]
    return result


def beam_search(log_probabilities, beams, length):
    ids, scores = np.zeros((1, 1), dtype=int), np.zeros(1)
    for _ in range(length):
        total = scores[:, None] + log_probabilities[ids[:, -1]]
        best = np.argsort(-total, axis=None)[:beams]
        rows, tokens = np.unravel_index(best, total.shape)
        ids, scores = np.hstack([ids[rows], tokens[:, None]]), total.reshape(-1)[best]
    return ids[0, 1:]


def best_hypothesis(totals, lengths, length_penalty):
    return max(range(len(totals)), key=lambda one: totals[one] / lengths[one] ** length_penalty)

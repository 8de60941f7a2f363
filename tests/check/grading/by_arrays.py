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


def shared(Q, K, V, seen=None):
    scores = Q @ K.T / np.sqrt(K.shape[-1])
    scores = scores if seen is None else scores + np.where(seen, 0, -np.inf)
    powers = np.exp(scores - scores.max(-1, keepdims=True))
    return (powers @ V) / powers.sum(-1, keepdims=True)


def causal_attention(Q, K, V):
    return np.vstack([shared(Q[[row]], K[: row + 1], V[: row + 1]) for row in range(len(Q))])


def masked_attention(Q, K, V, mask):
    return shared(Q, K, V, np.tile(mask, (len(Q), 1)) == 1)


def cross_attention(x, memory, Wq, Wk, Wv):
    return shared(x @ Wq.T @ Wk, memory * np.sqrt(len(Wq) / len(Wk)), memory @ Wv.T)


def grouped_attention(Q, K, V):
    K, V = np.repeat(K, len(Q) // len(K), axis=0), np.repeat(V, len(Q) // len(V), axis=0)
    scores = np.einsum("hqd,hkd->hqk", Q, K) / np.sqrt(Q.shape[-1])
    powers = np.exp(scores - scores.max(-1, keepdims=True))
    return np.einsum("hqk,hkd->hqd", powers / powers.sum(-1, keepdims=True), V)


def cached_step(q, k, v, cached_keys, cached_values):
    keys, values = [*cached_keys], [*cached_values]
    rows = []
    for row in range(len(q)):
        keys.append(k[row])
        values.append(v[row])
        rows.append(shared(q[[row]], np.array(keys), np.array(values)))
    return np.concatenate(rows)


def feed_forward(x, W1, b1, W2, b2):
    return np.array([W2 @ np.clip(W1 @ row + b1, 0, None) + b2 for row in x])


def gelu(x):
    import math

    return np.array([number - number * math.erfc(number / 2**0.5) / 2 for number in x])


def gelu_tanh(x):
    return x / (1 + np.exp(-2 * np.sqrt(2 / np.pi) * x * (1 + 0.044715 * x * x)))


def encoder_block(x, Wq, Wk, Wv, W1, W2):
    x = layer_norm(x + shared(x @ Wq.T, x @ Wk.T, x @ Wv.T))
    return layer_norm(x + np.maximum(x @ W1.T, 0) @ W2.T)


def encoder_block_norm_before(x, Wq, Wk, Wv, W1, W2):
    y = layer_norm(x)
    x = x + shared(y @ Wq.T, y @ Wk.T, y @ Wv.T)
    return x + np.maximum(layer_norm(x) @ W1.T, 0) @ W2.T


def decoder_block(x, memory, Wq, Wk, Wv, Uq, Uk, Uv, W1, W2):
    x = layer_norm(x + causal_attention(x @ Wq.T, x @ Wk.T, x @ Wv.T))
    x = layer_norm(x + shared(x @ Uq.T, memory @ Uk.T, memory @ Uv.T))
    return layer_norm(x + np.maximum(x @ W1.T, 0) @ W2.T)


def sinusoidal_positions(count, width):
    table = np.empty((count, width))
    angle = np.outer(np.arange(count), np.exp(-np.log(10000) * np.arange(0, width, 2) / width))
    table[:, ::2], table[:, 1::2] = np.sin(angle), np.cos(angle)
    return table


def rotary(x, base=10000.0):
    n = x.shape[1]
    angle = np.outer(np.arange(len(x)), base ** (-np.arange(0, n, 2) / n))
    angle = np.hstack([angle, angle])
    half = np.hstack([-x[:, n // 2 :], x[:, : n // 2]])
    return x * np.cos(angle) + half * np.sin(angle)


def relative_bias(table, queries, keys):
    most = (len(table) - 1) // 2
    return [[table[max(-most, min(most, j - i)) + most] for j in range(keys)] for i in range(queries)]


def cross_entropy(logits, labels, smoothing=0.0):
    losses = []
    for row, label in zip(logits, labels):
        if label != -100:
            said = row - np.log(np.exp(row).sum())
            wanted = np.full(len(row), smoothing / len(row))
            wanted[label] += 1 - smoothing
            losses.append(-(wanted * said).sum())
    return np.mean(losses)


def next_token_loss(logits, ids):
    return cross_entropy(logits, [*ids[1:], -100])


def accumulated_loss(parts):
    return sum(part.mean() * len(part) for part in parts) / sum(map(len, parts))


def inverse_root_rate(step, width, warm_up):
    if step < warm_up:
        return step / (warm_up * np.sqrt(warm_up * width))
    return 1 / np.sqrt(step * width)

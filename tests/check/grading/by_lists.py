"""Right solutions in plain Python: lists, loops and math."""

import math


def softmax(items_in):
    items = [float(item[0][0]) if isinstance(item, list) else float(item) for item in items_in]
    total = math.fsum(math.exp(item - max(items)) for item in items)
    return [math.exp(item - max(items)) / total for item in items]


def transposed(matrix):
    return [list(row) for row in zip(*matrix)]


def product(left, right):
    return [[math.fsum(a * b for a, b in zip(row, column)) for column in zip(*right)] for row in left]


def linear(omega, x, beta):
    return [[number + bias[0] for number in row] for row, bias in zip(product(omega, x), beta)]


def softmax_cols(data_in):
    return transposed([softmax(list(column)) for column in zip(*data_in)])


def self_attention(X, omega_v, omega_q, omega_k, beta_v, beta_q, beta_k):
    if not isinstance(X, list):
        raise TypeError("lists, please")
    queries, keys = linear(omega_q, X, beta_q), linear(omega_k, X, beta_k)
    return product(linear(omega_v, X, beta_v), softmax_cols(product(transposed(keys), queries)))


def self_attention_by_vector(all_x, *weights):
    X = transposed([[row[0] for row in x] for x in all_x])
    return [[[number] for number in column] for column in zip(*self_attention(X, *weights))]


def scaled_dot_product_self_attention(X, omega_v, omega_q, omega_k, beta_v, beta_q, beta_k):
    root = math.sqrt(len(omega_q))
    omega_q = [[number / root for number in row] for row in omega_q]
    beta_q = [[row[0] / root] for row in beta_q]
    return self_attention(X, omega_v, omega_q, omega_k, beta_v, beta_q, beta_k)


def multihead_scaled_self_attention(X, *given):
    first = scaled_dot_product_self_attention(X, *given[:6])
    return product(given[12], [*first, *scaled_dot_product_self_attention(X, *given[6:12])])


def layer_norm(x, eps=1e-5):
    if not isinstance(x, list):
        raise TypeError("lists, please")
    if isinstance(x[0], list):
        return [layer_norm(row, eps) for row in x]
    mean = sum(x) / len(x)
    root = math.sqrt(sum((number - mean) ** 2 for number in x) / len(x) + eps)
    return [(number - mean) / root for number in x]


def tokenize(text, num_merges):
    words = [[*word, "</w>"] for word in text.split()]
    for _ in range(num_merges):
        met = [pair for word in unique(words) for pair in zip(word, word[1:])]
        if not met:
            break
        counts = {pair: 0 for pair in met}
        for word in words:
            for pair in zip(word, word[1:]):
                counts[pair] += 1
        best = max(counts.values())
        first = next(pair for pair in counts if counts[pair] == best)
        for word in words:
            place = 0
            while place + 1 < len(word):
                if (word[place], word[place + 1]) == first:
                    word[place : place + 2] = ["".join(first)]
                place += 1
    tokens = [token for word in words for token in word]
    return {token: tokens.count(token) for token in tokens}


def unique(words):
    return [word for place, word in enumerate(words) if word not in words[:place]]


def greedy(logits):
    return list(logits).index(max(logits))


def kth_best(logits, k):
    return sorted(range(len(logits)), key=lambda token: -logits[token])[k - 1]


def sample(logits, uniform):
    left = uniform
    for token, share in enumerate(softmax(list(logits))):
        left -= share
        if left < 0:
            return token
    return len(logits) - 1


def top_k(logits, k):
    kept = sorted(logits, reverse=True)[:k]
    return [logit if logit in kept else -math.inf for logit in logits]


def nucleus(logits, threshold):
    result, left = [-math.inf] * len(logits), threshold
    shares = softmax(list(logits))
    for token in sorted(range(len(logits)), key=lambda token: -logits[token]):
        result[token] = logits[token]
        left -= shares[token]
        if left <= 0:
            break
    return result


def beam_search(log_probabilities, beams, length):
    running = [(0.0, [0])]
    for _ in range(length):
        running = [
            (score + more, [*ids, token])
            for score, ids in running
            for token, more in enumerate(log_probabilities[ids[-1]])
        ]
        running = sorted(running, reverse=True)[:beams]
    return running[0][1][1:]


def best_hypothesis(totals, lengths, length_penalty):
    scores = [total / length**length_penalty for total, length in zip(totals, lengths)]
    return scores.index(max(scores))

"""GLM baselines as slow literal loops: one replication, one round at a time."""

import numpy as np
from scipy.optimize import NonlinearConstraint, minimize

from privbandit.links import Logistic

D, K, S, T, R = 2, 4, 2.0, 60, 3
ZETA = 0.1


def sigma(z):
    return 1 / (1 + np.exp(-z))


def project_slowly(theta, M, radius):
    """argmin |y - theta|_M over the ball by bisection on the multiplier."""
    if theta @ theta <= radius**2:
        return theta
    low, high = 0.0, 1e12
    for _ in range(200):
        nu = (low + high) / 2
        y = np.linalg.solve(M + nu * np.eye(len(theta)), M @ theta)
        low, high = (nu, high) if y @ y > radius**2 else (low, nu)
    return y


def gloc_loop(x, u, theta_star, width=1.0):
    k = float(sigma(S) * sigma(-S))
    V, theta, zs, xs, B, arms = D * np.eye(D), np.zeros(D), [], [], 2 * k * S**2 * D, []
    for t in range(len(x)):
        z, X = np.array(zs), np.array(xs).reshape(-1, D)
        centre = np.linalg.solve(V, X.T @ z) if zs else np.zeros(D)
        alpha = 1 + 4 / k * B + 8 * 0.25 / k**2 * np.log(2 / ZETA * np.sqrt(1 + 2 * B / k + 4 * 0.5**4 / (k**4 * ZETA**2)))
        radius = np.sqrt(alpha + D * S**2 - (z @ z - centre @ (X.T @ z)))
        index = [a @ centre + width * radius * np.sqrt(a @ np.linalg.solve(V, a)) for a in x[t]]
        arms.append(int(np.argmax(index)))
        a = x[t][arms[-1]]
        r = float(u[t] < sigma(a @ theta_star))
        zs.append(a @ theta)
        xs.append(a)
        V = V + np.outer(a, a)
        g = (sigma(a @ theta) - r) * a
        B += g @ np.linalg.solve(V, g) / (2 * k)
        theta = project_slowly(theta - np.linalg.solve(V, g) / k, V, S)
    return arms


def ol2m_loop(x, u, theta_star):
    beta, lam = 1 / (2 * (1 + np.exp(S))), float(D)
    Z, theta, arms = lam * np.eye(D), np.zeros(D), []
    for t in range(1, len(x) + 1):
        tau = np.log(2 * max(1, np.ceil(2 * np.log2(t))) * t**2 / ZETA)
        square = 8 * S + lam * S**2 + (8 / beta + 16 * S / 3) * tau + 2 / beta * np.log(np.linalg.det(Z) / lam**D)
        index = [a @ theta + np.sqrt(square * (a @ np.linalg.solve(Z, a))) for a in x[t - 1]]
        arms.append(int(np.argmax(index)))
        a = x[t - 1][arms[-1]]
        r = float(u[t - 1] < sigma(a @ theta_star))
        Z = Z + beta / 2 * np.outer(a, a)
        theta = project_slowly(theta - np.linalg.solve(Z, (sigma(a @ theta) - r) * a), Z, S)
    return arms


def in_ball_minimum(loss, d, radius, start):
    ball = NonlinearConstraint(lambda v: v @ v, -np.inf, radius**2)
    return minimize(loss, start, method="SLSQP", constraints=[ball], options={"ftol": 1e-15, "maxiter": 300}).x


def ecolog_loop(x, u, theta_star, lam=3.0, width=1.0):
    W, theta, excess, arms = lam * np.eye(D), np.zeros(D), 0.0, []
    b = Logistic().b
    for t in range(1, len(x) + 1):
        log = np.log(2 * np.sqrt(1 + t / (4 * lam)) / ZETA)
        radius = np.sqrt(2 * lam * S**2 + (1 + S) ** 2 * (np.sqrt(lam) / 2 + 2 / np.sqrt(lam) * log) + excess)
        index = [a @ theta + width * radius * np.sqrt(a @ np.linalg.solve(W, a)) for a in x[t - 1]]
        arms.append(int(np.argmax(index)))
        a = x[t - 1][arms[-1]]
        r = float(u[t - 1] < sigma(a @ theta_star))
        near = lambda v, theta=theta, W=W: 0.5 * (v - theta) @ W @ (v - theta)  # noqa: E731
        new = in_ball_minimum(lambda v: near(v) + b(a @ v) - r * (a @ v), D, S, theta)
        bar = in_ball_minimum(lambda v: near(v) + 2 * b(a @ v) - a @ v, D, S, theta)
        loss = lambda v: b(a @ v) - r * (a @ v)  # noqa: E731
        excess += 2 * (1 + S) * (loss(bar) - loss(new)) - 0.5 * (new - bar) @ W @ (new - bar)
        assert sigma(a @ bar) * sigma(-a @ bar) <= 2 * sigma(a @ new) * sigma(-a @ new)  # no warm-up at lambda >= 2 / log 2
        theta, W = new, W + sigma(a @ new) * sigma(-a @ new) * np.outer(a, a)
    return arms


def mle_slowly(X, r, lam, start, radius=None):
    loss = lambda v: np.sum(np.logaddexp(0, X @ v) - r * (X @ v)) + lam / 2 * v @ v  # noqa: E731
    if radius is not None:
        return in_ball_minimum(loss, D, radius, start)
    return minimize(loss, start, method="BFGS", options={"gtol": 1e-10}).x


def glm_ucb_loop(x, u, theta_star):
    kappa, lam = 1 / float(sigma(S) * sigma(-S)), float(D)
    V, theta, X, r, arms = lam * np.eye(D), np.zeros(D), [], [], []
    for t in range(1, len(x) + 1):
        rho = 2 * 0.25 * kappa * np.sqrt(3 + 2 * np.log(1 + 2 / lam)) * np.sqrt(2 * D * np.log(max(t, 2)) * np.log(2 * D * T / ZETA))
        index = [sigma(a @ theta) + 0.02 * rho * np.sqrt(a @ np.linalg.solve(V, a)) for a in x[t - 1]]
        arms.append(int(np.argmax(index)))
        a = x[t - 1][arms[-1]]
        X.append(a)
        r.append(float(u[t - 1] < sigma(a @ theta_star)))
        V = V + np.outer(a, a)
        theta = mle_slowly(np.array(X), np.array(r), lam / kappa, theta)
    return arms


def rs_loop(x, u, theta_star, kappa=4.0, lam=0.5, gamma=0.6, beta=0.4, threshold=0.1, c=0.5):
    V, H, H_tau = lam * np.eye(D), lam * np.eye(D), lam * np.eye(D)
    theta_o, theta_tau, data, arms = np.zeros(D), np.zeros(D), {True: ([], []), False: ([], [])}, []
    for t in range(len(x)):
        uncertainty = np.array([a @ np.linalg.solve(V, a) for a in x[t]])
        explore = bool(uncertainty.max() >= threshold)
        if explore:
            arms.append(int(np.argmax(uncertainty)))
        else:
            if np.linalg.det(H) >= (1 + c) * np.linalg.det(H_tau):
                H_tau, theta_tau = H, mle_slowly(np.array(data[False][0]), np.array(data[False][1]), lam, theta_tau, radius=S)
            width = gamma * np.sqrt(kappa * uncertainty)
            lower = np.max(x[t] @ theta_o - width)
            index = [
                a @ theta_tau + beta * np.sqrt(a @ np.linalg.solve(H_tau, a)) if a @ theta_o + w >= lower else -np.inf
                for a, w in zip(x[t], width, strict=True)
            ]
            arms.append(int(np.argmax(index)))
        a = x[t][arms[-1]]
        data[explore][0].append(a)
        data[explore][1].append(float(u[t] < sigma(a @ theta_star)))
        if explore:
            V = V + np.outer(a, a)
            theta_o = mle_slowly(np.array(data[True][0]), np.array(data[True][1]), lam, theta_o, radius=S)
        else:
            H = H + sigma(a @ theta_o) * sigma(-a @ theta_o) / np.e * np.outer(a, a)
    return arms

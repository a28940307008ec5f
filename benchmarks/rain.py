"""How long it takes to differentiate a function of a hundred lines: from source to source, and by Numba's compiler.

    python benchmarks/rain.py

The function is a column of air with clouds and rain. What is on disk already counts as compiled.
"""

import math
from time import perf_counter, process_time

import numpy as np
from numba import njit

import nbgrad as nb


def rain_column(theta, vapour, cloud, rain, pressure, density, rates, dz, dt, steps):
    """Warm rain in a column of air, after Kessler: `theta` (potential temperature), `vapour`, `cloud` and `rain`
    (kilograms per kilogram of air) change; the rain that reaches the ground is returned, in millimetres."""
    n = theta.size
    autoconversion, threshold, accretion = rates[0], rates[1], rates[2]
    evaporation, mixing, updraught = rates[3], rates[4], rates[5]
    latent = 2.5e6
    heat = 1004.0
    exner = np.empty(n)
    for k in range(n):
        exner[k] = (pressure[k] / 1e5) ** 0.2857
    speed = np.zeros(n + 1)
    fluxes = np.zeros((4, n + 1))
    fallen = 0.0
    for t in range(steps):
        # the updraught carries everything but rain, from below; mixing goes down gradients
        lift = updraught * math.sin(math.pi * (t + 0.5) / steps)
        for k in range(1, n):
            above = density[k] * mixing / dz
            carried = density[k] * max(lift, 0.0)
            sunk = density[k] * min(lift, 0.0)
            fluxes[0, k] = carried * theta[k - 1] + sunk * theta[k] - above * (theta[k] - theta[k - 1])
            fluxes[1, k] = carried * vapour[k - 1] + sunk * vapour[k] - above * (vapour[k] - vapour[k - 1])
            fluxes[2, k] = carried * cloud[k - 1] + sunk * cloud[k] - above * (cloud[k] - cloud[k - 1])
            fluxes[3, k] = carried + sunk
        for k in range(n):
            share = dt / (density[k] * dz)
            inflow = fluxes[3, k + 1] - fluxes[3, k]
            theta[k] -= share * (fluxes[0, k + 1] - fluxes[0, k] - theta[k] * inflow)
            vapour[k] -= share * (fluxes[1, k + 1] - fluxes[1, k] - vapour[k] * inflow)
            cloud[k] -= share * (fluxes[2, k + 1] - fluxes[2, k] - cloud[k] * inflow)

        # the ground gives heat and moisture to the lowest air; all air radiates heat away, less below clouds
        exchange = 0.005 * (1.0 + abs(lift)) * dt / dz
        ground = 611.2 * 0.622 / pressure[0] * math.exp(17.67 * 28.0 / (28.0 + 243.5))
        if theta[0] < 302.0:
            theta[0] += exchange * (302.0 - theta[0])
        if vapour[0] < ground:
            vapour[0] += exchange * (ground - vapour[0])
        cover = 0.0
        for k in range(n - 1, -1, -1):
            cover += density[k] * cloud[k] * dz
            theta[k] -= 2e-5 * dt * math.exp(-cover / 0.05)

        # what is above saturation condenses, cloud below it evaporates; heat is set free and taken
        for k in range(n):
            temperature = theta[k] * exner[k]
            celsius = temperature - 273.15
            e = 611.2 * math.exp(17.67 * celsius / (celsius + 243.5))
            saturated = 0.622 * e / (pressure[k] - e)
            slope = saturated * 17.67 * 243.5 / (celsius + 243.5) ** 2
            excess = (vapour[k] - saturated) / (1.0 + latent / heat * slope)
            if excess > 0.0:
                condensed = excess
            else:
                condensed = max(excess, -cloud[k])
            vapour[k] -= condensed
            cloud[k] += condensed
            theta[k] += latent / heat * condensed / exner[k]

        # cloud becomes rain by itself if there is much, and is swept up by rain
        for k in range(n):
            grown = 0.0
            if cloud[k] > threshold:
                grown = autoconversion * (cloud[k] - threshold)
            if rain[k] > 1e-12:
                grown += accretion * cloud[k] * rain[k] ** 0.875
            grown = min(grown * dt, cloud[k])
            cloud[k] -= grown
            rain[k] += grown

        # rain evaporates where the air is dry
        for k in range(n):
            temperature = theta[k] * exner[k]
            celsius = temperature - 273.15
            e = 611.2 * math.exp(17.67 * celsius / (celsius + 243.5))
            saturated = 0.622 * e / (pressure[k] - e)
            lack = 1.0 - vapour[k] / saturated
            if lack > 0.0 and rain[k] > 1e-12:
                content = density[k] * rain[k]
                ventilation = 1.6 + 30.39 * content**0.2046
                lost = evaporation * dt * lack * ventilation * content**0.525 / density[k]
                lost = min(lost, rain[k])
                vapour[k] += lost
                rain[k] -= lost
                theta[k] -= latent / heat * lost / exner[k]

        # rain falls, the faster the more there is; half steps keep that stable
        for _ in range(2):
            for k in range(n):
                if rain[k] > 1e-12:
                    content = density[k] * rain[k]
                    speed[k] = 14.16 * content**0.1364 * math.sqrt(density[0] / density[k])
                else:
                    speed[k] = 0.0
            fallen += 0.5 * dt * density[0] * rain[0] * speed[0]
            for k in range(n):
                out = density[k] * rain[k] * speed[k]
                come = 0.0
                if k < n - 1:
                    come = density[k + 1] * rain[k + 1] * speed[k + 1]
                rain[k] += 0.5 * dt * (come - out) / (density[k] * dz)
    return fallen


def arguments(levels=60, steps=720):
    """A column of 12 kilometres, moist below; steps of 5 seconds."""
    dz = 12000.0 / levels
    z = dz * (0.5 + np.arange(levels))
    theta = 300.0 + 0.004 * z
    pressure = 1e5 * (1 - 0.0000225577 * z) ** 5.2559
    density = pressure / (287.0 * theta * (pressure / 1e5) ** 0.2857)
    vapour = 0.016 * np.exp(-z / 2500.0)
    rates = np.array([1e-3, 5e-4, 2.2, 5e-4, 10.0, 2.0])
    return theta, vapour, np.zeros(levels), np.zeros(levels), pressure, density, rates, dz, 5.0, steps


def timed(label, call):
    wall, cpu = perf_counter(), process_time()
    result = call()
    print(f"{label:44} {perf_counter() - wall:8.3f} s, {process_time() - cpu:8.3f} s of the CPU")
    return result


def fastest(call):
    """The shortest time of the CPU of some calls with fresh arguments."""
    times = []
    for _ in range(20):
        given = arguments()
        start = process_time()
        call(*given)
        times.append(process_time() - start)
    return min(times)


def main() -> None:
    function = njit(nogil=True, error_model="numpy")(rain_column)
    adjoint = nb.adjoint(rain_column)
    timed("compile the function, first call", lambda: function(*arguments()))
    made = timed("from source to source", lambda: adjoint._generated(arguments()))
    timed("compile the adjoint, first call", lambda: adjoint.value_and_grad(*arguments()))
    once, both = fastest(function), fastest(adjoint.value_and_grad)
    print(
        f"{len(made.text.splitlines())} lines; {1e3 * once:.2f} ms the function, {both / once:.1f} times with gradient"
    )
    print(f"{sum(adjoint.report(*arguments()).values()) / 1e6:.1f} MB of tapes")


if __name__ == "__main__":
    main()

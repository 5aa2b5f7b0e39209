"""`r2et certify`."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer

from r2et.cli.common import Limit, PlausibleOption, ThreatOption, interactive, parse_radii, print_json, print_table
from r2et.cli.subject import SubjectOptions, in_plausible_units, takes_subject
from r2et.errors import InputError
from r2et.files.writing import check_writable, write_text
from r2et.numerics.values import check_choice

if TYPE_CHECKING:
    import torch

    from r2et.attacks.worst_case import Budget
    from r2et.certificates import Certificate, Method
    from r2et.domain import Threat


@takes_subject
def certify(
    options: SubjectOptions,
    method: Annotated[
        str,
        typer.Option(
            help="auto, additive, deterministic, piecewise, integral, intervals, dual, smoothing or first-order."
        ),
    ] = "auto",
    prediction: Annotated[
        bool,
        typer.Option(
            "--prediction",
            help="Certify also that the prediction stays: the class, or a number up to a tolerance.",
        ),
    ] = False,
    threat: ThreatOption = None,
    plausible: PlausibleOption = None,
    radii: Annotated[str, typer.Option(help="Radii for the certified P@k, comma separated.")] = "0.03,0.1,0.3,1.0",
    bracket: Annotated[
        bool,
        typer.Option(
            "--bracket",
            help="Attack too: the truth lies between what is proven and what an attack leaves, at each radius, "
            "and the true radius between the certified one and the smallest attack.",
        ),
    ] = False,
    free: Annotated[bool, typer.Option("--free", help="Attacks of --bracket may change the prediction.")] = False,
    budget: Annotated[
        str, typer.Option(help="Effort of the attack of --bracket: fast, standard or thorough.")
    ] = "standard",
    sigma: Annotated[float, typer.Option(help="Noise of smoothing.")] = 0.25,
    samples: Annotated[int, typer.Option(help="Noisy copies of each input, for smoothing.")] = 20_000,
    alpha: Annotated[float, typer.Option(help="Probability of error of smoothing, for one input.")] = 0.001,
    limit: Limit = 100,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Write the radii of each input (.csv).")
    ] = None,
) -> None:
    """Certify a radius inside which the top-k features of a model cannot change.

    The explanation is the one the model was trained for, else the gradient. smoothing works for any
    model, but certifies a smoothed explanation; first-order is an estimate.

    Example: r2et certify runs/adult-r2et --bracket --radii 0.05,0.1
    """
    import r2et
    from r2et.domain import chosen_threat
    from r2et.enclosure.problems import why_uncertified

    wanted = parse_radii(radii)
    check_choice("budget", budget, ("fast", "standard", "thorough"))
    if bracket and method == "smoothing":
        raise InputError(
            "--bracket attacks the plain explanation, which smoothing does not certify: leave one of them out"
        )
    if output is not None:
        check_writable(output)
    noise = r2et.certificates.Smoothing(sigma=sigma, samples=samples, alpha=alpha, seed=options.seed)
    subject = options.subject(limit)
    subject = in_plausible_units(subject, plausible)
    model, x = subject.model, subject.x
    named = chosen_threat(cast("Threat | None", threat), subject.domain)
    # where the effects of columns are not enclosed, the gradient over encoded features is
    explainer = subject.explainer_under(named)
    if why_uncertified(explainer, x) is not None:
        explainer = subject.explainer_under("paper")
    certificate = r2et.certify(
        model,
        x,
        subject.k if options.k is None else options.k,
        explainer=explainer,
        method=noise if method == "smoothing" else method,  # type: ignore[arg-type]  # it checks
        prediction=prediction,
        tolerance=subject.tolerance,
        domain=subject.domain,
        threat=named,
        progress=interactive(options.as_json),
    )
    smallest = both = None
    # an estimate is no end of a bracket
    if bracket and certificate.sound:
        worst = r2et.attacks.WorstCase(
            k=certificate.k, radius=max(wanted), budget=cast("Budget", budget), tolerance=subject.tolerance
        )
        both = r2et.bracket(
            model,
            x,
            certificate.k,
            radii=wanted,
            explainer=explainer,
            domain=subject.domain,
            threat=named,
            prediction="free" if free else "kept",
            attack=worst,
            method=cast("Method", method),
            seed=options.seed,
            progress=interactive(options.as_json),
        )
    if bracket:
        flip = r2et.attacks.MinimalFlip(
            k=certificate.k,
            radius=_farthest(certificate),
            explainer=explainer,
            keep="any" if free else "best",
            tolerance=subject.tolerance,
        )
        flips = flip(
            model,
            x,
            domain=subject.domain,
            threat=named,
            seed=options.seed,
            progress=interactive(options.as_json),
        )
        smallest = flips.distance.double().masked_fill(flips.precision >= 1, float("inf"))
    if output is not None:
        _write(certificate, smallest, output)
    precision = {radius: float(certificate.precision_at(radius).mean()) for radius in wanted}
    if options.as_json:
        summary: dict[str, Any] = {
            "model": options.model,
            "data": subject.data,
            "notes": list(subject.notes),
            "rows": len(x),
            "threat": named,
            **certificate.to_dict(),
            "precision": {f"{radius:g}": value for radius, value in precision.items()},
        }
        if both is not None:
            summary["bracket"] = both.to_dict()
        if smallest is not None:
            summary["smallest_attack"] = [value if value < float("inf") else None for value in smallest.tolist()]
        print_json(summary)
        return
    typer.echo(repr(certificate))
    if smallest is not None:
        flipped = smallest.isfinite()
        share = (certificate.radius / smallest)[flipped]
        typer.echo(
            f"smallest attack found on {int(flipped.sum())} of {len(smallest)} inputs"
            + (f": certified / attack, median {float(share.median()):.2f}" if len(share) else "")
        )
    if both is not None:
        typer.echo(f"{subject.data}, {subject.rows}\n{both!r}")
        return
    rows = [[f"{radius:g}", f"{100 * value:.1f}"] for radius, value in precision.items()]
    heading = "certified P@" if certificate.sound else "estimated P@"
    print_table(f"{subject.data}, {subject.rows}, threat {named}", ["radius", f"{heading}{certificate.k}"], rows)


def _farthest(certificate: "Certificate") -> float:
    """How far the smallest attack is looked for."""
    finite = certificate.radius[certificate.radius.isfinite() & (certificate.radius > 0)]
    return 8 * float(finite.max()) if len(finite) else 1.0


def _write(certificate: "Certificate", smallest: "torch.Tensor | None", path: Path) -> None:
    frame = certificate.to_frame()
    if smallest is not None:
        frame.insert(1, "smallest_attack", smallest.numpy())
    write_text(path, frame.to_csv(index_label="row"))

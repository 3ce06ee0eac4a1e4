"""Labels of devices: what the machine calls them, as in `npu gpu[8] labels [...]`."""

from __future__ import annotations

from itertools import product

import numpy as np

from collc.base.wording import plural
from collc.source.elaboration.evaluate import Evaluator
from collc.source.elaboration.frames import Frame
from collc.source.elaboration.values import ListArray
from collc.source.host_lists import expanded_hosts, is_host_range
from collc.source.parsing.expressions import Expr
from collc.source.problems import fail
from collc.source.types import STRING, list_of
from collc.ten.network import DeviceFamily


def labels_of(node: Expr | None, count: int, frame: Frame, evaluator: Evaluator) -> tuple[str, ...]:
    """The labels of `count` devices or copies; () where none are given. `host[1-4]` stands for four labels.

    Raises SourceError E0329 where there are more or fewer.
    """
    if node is None:
        return ()
    value = evaluator.value(node, frame)
    if value.type == STRING:
        texts = [str(value.data)]
    else:
        data = evaluator.wanted(node, frame, list_of(STRING), "labels").data
        items = data.only() if isinstance(data, ListArray) else data
        assert isinstance(items, np.ndarray)
        texts = [str(item) for item in items.tolist()]
    labels: list[str] = []
    for text in texts:
        try:
            labels += expanded_hosts(text, count) if is_host_range(text) else [text]
        except ValueError:
            labels.append(text)
        except OverflowError as error:
            raise fail("E0329", f"{error}, where {plural(count, 'label')} would fit", node.span) from None
        if len(labels) > count:
            break
    if len(labels) != count:
        given = f"more than {plural(count, 'label')}" if len(labels) > count else plural(len(labels), "label")
        hint = "one for each device or copy, the last index counting fastest"
        raise fail("E0329", f"{given} where {count} would fit", node.span, hint=hint)
    return tuple(labels)


def labels_inside(host: str, family: DeviceFamily) -> tuple[str, ...]:
    """The labels of devices of a copy that has the label `host`; "" for none."""
    if not host:
        return family.labels
    own = family.labels
    if not own:
        indices = product(*map(range, family.shape))
        own = tuple(f"{family.name}[{', '.join(map(str, i))}]" if i else family.name for i in indices)
    return tuple(f"{host}/{label}" for label in own)

import os
import tempfile
import unittest
import xml.etree.ElementTree

from tools import plot_log


def write(lines):
    path = os.path.join(tempfile.mkdtemp(), "log.jsonl")
    with open(path, "w", encoding="utf-8") as file:
        file.write("\n".join(lines) + "\n")
    return path


class PlotLogTest(unittest.TestCase):

    def test_reads_steps_and_evaluations(self):
        losses, metrics = plot_log.read(write(
            ['{"step":0,"val_loss":3,"val_accuracy":0.1}', '{"step":1,"loss":2.5}', '{"step":2,"loss":null}',
             '{"step":3,"loss":1.5}', '{"step":3,"val_subset_loss":2,"val_subset_samples":128}',
             '{"step":3,"val_final_loss":1.5,"val_final_samples":256}',
             '{"step":3,"val_loss":1,"val_accuracy":0.9,"val_samples":2494}']))
        self.assertEqual(losses, [(1, 2.5), (3, 1.5)])
        self.assertEqual(metrics, {"val_loss": [(0, 3), (3, 1)], "val_accuracy": [(0, 0.1), (3, 0.9)],
                                   "val_subset_loss": [(3, 2)], "val_final_loss": [(3, 1.5)]})

    def test_what_is_no_log_is_named(self):
        for lines, expected in ((["text"], ":1: expected a line of a run's log, got 'text"), (['{"loss":1}'], ":1: expected"),
                                (['{"step":0,"val_loss":1}'], "expected at least one step with a loss")):
            with self.assertRaisesRegex(plot_log.Error, expected):
                plot_log.read(write(lines))
        with self.assertRaisesRegex(plot_log.Error, "No such file"):
            plot_log.read("/nowhere/log.jsonl")

    def test_smooths_to_a_hundred_means(self):
        points = plot_log.smooth([(i, i % 2) for i in range(1000)])
        self.assertEqual(len(points), 100)
        self.assertEqual(points[0], (9, 0.5))
        self.assertEqual(plot_log.smooth([(1, 4.0)]), [(1, 4.0)])

    def test_ticks_are_round(self):
        self.assertEqual(plot_log.ticks(0, 1), [0, 0.2, 0.4, 0.6, 0.8, 1])
        self.assertEqual(plot_log.ticks(3, 1800), [500, 1000, 1500])

    def test_draws_every_line_within_the_picture(self):
        picture = plot_log.draw([(1, 2.0), (2, 1.0)], {"val_loss": [(0, 2.5)], "val_accuracy": [(0, 0.1), (2, 0.8)]}, "t")
        root = xml.etree.ElementTree.fromstring(picture)
        lines = root.findall("{*}polyline")
        self.assertEqual(len(lines), 3)
        for line in lines:
            for place in line.get("points").split():
                x, y = map(float, place.split(","))
                self.assertTrue(0 <= x <= plot_log.WIDTH and 0 <= y <= plot_log.HEIGHT)
        # A loss that falls goes down, and an accuracy that rises goes up.
        first, last = [float(place.split(",")[1]) for place in lines[0].get("points").split()]
        self.assertLess(first, last)
        first, last = [float(place.split(",")[1]) for place in lines[1].get("points").split()]
        self.assertGreater(first, last)

    def test_a_subset_and_all_are_told_apart(self):
        picture = plot_log.draw([(1, 2.0), (2, 1.0)], {
            "val_subset_loss": [(0, 2.5), (1, 2.0)], "val_loss": [(2, 1.8)],
            "val_subset_accuracy": [(0, 0.1)], "val_accuracy": [(2, 0.8)]}, "t")
        root = xml.etree.ElementTree.fromstring(picture)
        self.assertEqual(len(root.findall("{*}polyline")), 3)  # nothing joins the subset's and the whole's
        filled = [dot.get("fill") != "none" for dot in root.findall("{*}circle")]
        self.assertEqual((filled.count(False), filled.count(True)), (3, 2))
        labels = [text.text for text in root.findall("{*}text")]
        for label in ("loss", "held-out loss", "held-out accuracy", "\u25cb of a subset  \u25cf of all"):
            self.assertEqual(labels.count(label), 1, label)
        colors = {dot.get("stroke") for dot in root.findall("{*}circle")}
        self.assertEqual(len(colors), 2)  # one for each metric, of both kinds


if __name__ == "__main__":
    unittest.main()

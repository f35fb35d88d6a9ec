#!/bin/bash
# Opens a page that --explain_html wrote in a headless Chromium, goes through all its tabs and programs in light and
# dark, moves and clicks over the canvases, and fails on any error of the script or any console message.
#
#   framework/explain/page/check.sh plan.html [pictures/]
#
# With a folder, it gets a picture of every tab.
set -euo pipefail
page=$(realpath "$1")
folder=${2:-}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
browser=$(command -v chromium || command -v chromium-browser || command -v google-chrome) ||
    { echo "check.sh: expected a chromium on PATH, found none" >&2; exit 2; }

head_less() {
    "$browser" --headless --no-sandbox --disable-gpu --hide-scrollbars --enable-logging=stderr --window-size=1600,1000 \
        --user-data-dir="$work/profile" "$@" 2>"$work/log"
    if grep -a CONSOLE "$work/log" >&2; then exit 1; fi
}

cp "$page" "$work/page.html"
cat >>"$work/page.html" <<'EOF'
<script>
const said = [];
addEventListener("error", (e) => said.push(e.message + " at line " + e.lineno));
const pause = (ms) => new Promise((done) => setTimeout(done, ms));
(async () => {
  let tabs = 0, tips = 0;
  for (const p of raw.programs) {
    for (const name of Object.keys(TABS)) {
      for (const theme of ["light", "dark"]) {
        go({ program: p.name, tab: name, theme, op: null, box: null, bytes: null, q: null, range: null });
        await pause(30);
        const canvas = document.querySelector("canvas");
        if (canvas) {
          const box = canvas.getBoundingClientRect();
          const send = (type, x, y, more) => canvas.dispatchEvent(new (type === "wheel" ? WheelEvent : PointerEvent)(type,
            { clientX: box.left + x, clientY: box.top + y, bubbles: true, cancelable: true, pointerId: 1, ...more }));
          canvas.setPointerCapture = () => {};
          for (let x = 3; x < box.width; x += box.width / 23) {
            for (let y = 3; y < box.height; y += box.height / 17) {
              send("pointermove", x, y);
              if (!document.getElementById("tip").hidden) ++tips;
            }
          }
          send("wheel", box.width / 2, box.height / 2, { deltaY: -900 });
          send("pointerdown", 300, 200); send("pointermove", 360, 240); send("pointerup", 360, 240);
          send("pointerdown", 500, 300); send("pointerup", 500, 300);
          await pause(30);
        }
        const row = document.querySelector("main tbody tr:not(.space), main tr.link");
        if (row) row.click();
        await pause(20);
        go({ q: "h" });
        await pause(20);
        ++tabs;
      }
    }
  }
  document.body.replaceChildren(said.length ? "FAILED " + said.join("; ") : `PASSED ${tabs} tabs, ${tips} tips`);
})();
</script>
EOF
head_less --virtual-time-budget=60000 --dump-dom "file://$work/page.html" >"$work/dom"
grep -ao 'PASSED [^<]*\|FAILED [^<]*' "$work/dom" | tail -1
grep -aq '<body>PASSED' "$work/dom"

if [ -n "$folder" ]; then
    mkdir -p "$folder"
    for theme in light dark; do
        for tab in overview timeline memory graph ops boxings waits variables; do
            head_less --virtual-time-budget=3000 --screenshot="$folder/$tab-$theme.png" \
                "file://$page#tab=$tab&theme=$theme"
        done
    done
fi

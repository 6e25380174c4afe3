#pragma once
#include <string_view>

namespace attest::report {

// Colours follow the reader's choice of light and dark; contrast is that of WCAG AA (4.5 : 1) in both.
inline constexpr std::string_view html_style = R"(
:root { color-scheme: light dark; --page: #fbfbf9; --card: #ffffff; --ink: #1c1e21; --soft: #565c64; --line: #d9dbd6; --wrong: #b3261e;
  --right: #cfd8dc; --good: #1b6e3c; --heat: #3a6ea5; --mark: #8a5a00; }
@media (prefers-color-scheme: dark) { :root { --page: #14161a; --card: #1c1f25; --ink: #e7e9ec; --soft: #a4abb5; --line: #353a43; --wrong: #ff8a80;
  --right: #3b434d; --good: #7fd6a0; --heat: #6aa5e0; --mark: #f0c060; } }
* { box-sizing: border-box; }
body { margin: 0; background: var(--page); color: var(--ink); font: 16px/1.5 system-ui, sans-serif; }
main, header, nav, footer { max-width: 72rem; margin: 0 auto; padding: 0 1rem; }
header { padding-top: 1.5rem; } h1 { font-size: 1.6rem; line-height: 1.25; margin: 0 0 .25rem; overflow-wrap: anywhere; }
h1 code, h3 code { font-size: .9em; }
h2 { font-size: 1.25rem; margin: 2.25rem 0 .75rem; } h3 { font-size: 1.05rem; margin: 0; overflow-wrap: anywhere; }
h4 { font-size: .95rem; margin: 1rem 0 .25rem; }
nav { position: sticky; top: 0; background: var(--page); border-bottom: 1px solid var(--line); z-index: 1; padding-top: .5rem; padding-bottom: .5rem; }
nav ul { list-style: none; margin: 0; padding: 0; display: flex; flex-wrap: wrap; gap: .25rem 1.25rem; }
a { color: var(--heat); } a:focus-visible, summary:focus-visible, [tabindex]:focus-visible { outline: 3px solid var(--mark); outline-offset: 2px; }
.skip { position: absolute; left: -100vw; } .skip:focus { left: 1rem; top: .5rem; background: var(--card); padding: .5rem; z-index: 2; }
section { scroll-margin-top: 4rem; }
.status { font-weight: 600; } .bad { color: var(--wrong); } .good { color: var(--good); } .note, .soft { color: var(--soft); font-size: .9rem; }
.warning { border-left: 4px solid var(--mark); padding: .5rem .75rem; background: var(--card); }
.contents { margin: 0 0 1rem; padding-left: 1.75rem; } .contents li { margin: .25rem 0; overflow-wrap: anywhere; } .run { margin: .75rem 0; } .run dl { grid-template-columns: 6rem 1fr; gap: .3rem 1rem; }
.key code { font-size: .75rem; color: var(--soft); } dd ul { margin: 0; padding-left: 1.1rem; }
.card { background: var(--card); border: 1px solid var(--line); border-radius: .5rem; padding: 1rem; margin: 0 0 1rem; }
dl { display: grid; grid-template-columns: 9rem 1fr; gap: .3rem 1rem; margin: .75rem 0 0; } dt { color: var(--soft); } dd { margin: 0; overflow-wrap: anywhere; min-width: 0; }
code { font: .875rem/1.45 ui-monospace, monospace; overflow-wrap: anywhere; } .command { display: block; background: var(--page); border: 1px solid var(--line); border-radius: .25rem; padding: .35rem .5rem; }
.scroll { overflow-x: auto; } table { border-collapse: collapse; font-size: .9rem; font-variant-numeric: tabular-nums; }
th, td { padding: .2rem .6rem; text-align: right; border-bottom: 1px solid var(--line); white-space: nowrap; } th:first-child, td:first-child, .words { text-align: left; }
td.words { white-space: normal; min-width: 26rem; }
thead th { color: var(--soft); font-weight: 500; vertical-align: bottom; }
.heat td { background: color-mix(in srgb, var(--heat) calc(var(--h, 0) * 55%), transparent); } .heat .empty { color: var(--soft); outline: 1px dashed var(--soft); outline-offset: -2px; }
.bars { display: grid; grid-template-columns: minmax(5rem, max-content) 1fr max-content; gap: .1rem .6rem; font-size: .9rem; align-items: center; }
.bars .bar { display: block; height: .7rem; background: var(--heat); border-radius: .15rem; min-width: 1px; }
.fields { display: grid; grid-template-columns: repeat(auto-fill, minmax(17rem, 1fr)); gap: 1rem; } .fields > div { min-width: 0; }
svg { max-width: 100%; height: auto; display: block; } svg text { fill: var(--soft); font: 11px ui-monospace, monospace; } .middle { text-anchor: middle; } .end { text-anchor: end; }
rect.right { fill: var(--right); } rect.wrong { fill: var(--wrong); } .bound { stroke: var(--mark); stroke-dasharray: 4 3; } .axis { stroke: var(--soft); }
summary { cursor: pointer; padding: .3rem 0; } footer { padding: 2rem 1rem; }
@media (max-width: 40rem) { dl { grid-template-columns: 1fr; gap: 0; } dd { margin-bottom: .6rem; } h1 { font-size: 1.15rem; } nav { position: static; } }
@media print { nav { display: none; } .card { break-inside: avoid; } }
)";

}  // namespace attest::report

// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"encoding/xml"
	"fmt"
	"strings"
)

// The places in the drawing, in its own units.
const (
	svgWidth, svgHeight   = 960.0, 480.0
	svgLeft, svgRight     = 72.0, 24.0
	svgTop, svgBottom     = 64.0, 112.0
	stripTop, stripHeight = svgHeight - 76, 28.0
)

// svgStyle holds in light and dark, and without either said.
const svgStyle = `
    :root { --ink: #1b2733; --faint: #c9d3dc; --paper: #ffffff; --a: #0b6bcb; --b: #c4540a; --band: #eef3f8; --ice: #3aa0d8 }
    @media (prefers-color-scheme: dark) { :root { --ink: #e6edf3; --faint: #3a4652; --paper: #10161c; --a: #58a6ff; --b: #ff9a57; --band: #18212a; --ice: #58b8e8 } }
    text { font: 13px system-ui, sans-serif; fill: var(--ink) }
    .title { font-size: 17px; font-weight: 600 } .small { font-size: 11px }
    .paper { fill: var(--paper) } .band { fill: var(--band) } .grid { stroke: var(--faint); stroke-width: 1 }
    .line0 { fill: none; stroke: var(--a); stroke-width: 2 } .line1 { fill: none; stroke: var(--b); stroke-width: 2; stroke-dasharray: 5 3 }
    .key0 { fill: var(--a) } .key1 { fill: var(--b) } .ice { fill: var(--ice) } .frame { fill: none; stroke: var(--faint) }
  `

// SVG draws the picture. It is a whole document of its own.
func (p *Picture) SVG() []byte {
	d := &drawing{scale: p.scale()}
	d.add(`<?xml version="1.0" encoding="UTF-8"?>`)
	d.add(`<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %g %g" role="img">`, svgWidth, svgHeight)
	d.add(`  <title>%s</title>`, escape(p.Title))
	d.add(`  <style>%s</style>`, svgStyle)
	d.add(`  <rect class="paper" width="%g" height="%g"/>`, svgWidth, svgHeight)
	d.add(`  <text class="title" x="%g" y="26">%s</text>`, svgLeft, escape(p.Title))
	d.bands(p.Bands)
	d.grid()
	for i, l := range p.Lines {
		d.line(i, l)
	}
	d.strip(p.Strip)
	d.add(`  <text class="small" x="%g" y="%g">%s</text>`, svgLeft, svgHeight-10, escape(p.Note))
	d.add(`</svg>`)
	return []byte(d.out.String())
}

type drawing struct {
	scale
	out strings.Builder
}

func (d *drawing) add(format string, args ...any) { fmt.Fprintf(&d.out, format+"\n", args...) }

func (d *drawing) left(second float64) float64 {
	return svgLeft + d.x(second)*(svgWidth-svgLeft-svgRight)
}

func (d *drawing) top(ms float64) float64 { return svgTop + d.y(ms)*(svgHeight-svgTop-svgBottom) }

func (d *drawing) bands(all []Band) {
	for i, b := range all {
		from, to := d.left(b.From), d.left(b.To)
		if i%2 == 1 {
			d.add(`  <rect class="band" x="%.1f" y="%g" width="%.1f" height="%g"/>`, from, svgTop, to-from, svgHeight-svgTop-svgBottom)
		}
		d.add(`  <text x="%.1f" y="%g">%s</text>`, from+6, svgTop+16, escape(b.Name))
	}
}

func (d *drawing) grid() {
	for n := d.low; n <= d.high; n++ {
		y := svgTop + float64(d.high-n)/float64(d.high-d.low)*(svgHeight-svgTop-svgBottom)
		d.add(`  <line class="grid" x1="%g" y1="%.1f" x2="%g" y2="%.1f"/>`, svgLeft, y, svgWidth-svgRight, y)
		d.add(`  <text class="small" x="%g" y="%.1f" text-anchor="end">%s</text>`, svgLeft-8, y+4, powerOfTen(n))
	}
	step := 1.0
	for i := 0; (d.to-d.from)/step > 14; i++ {
		step *= []float64{2, 2.5, 2}[i%3] // 1, 2, 5, 10, 20, …
	}
	for at := d.from; at <= d.to; at += step {
		d.add(`  <text class="small" x="%.1f" y="%g" text-anchor="middle">%.0f s</text>`, d.left(at), svgHeight-svgBottom+16, at-d.from)
	}
}

func (d *drawing) line(i int, l Line) {
	class := min(i, 1)
	var points strings.Builder
	for _, at := range l.Points {
		if at.Second >= d.from && at.Second <= d.to {
			fmt.Fprintf(&points, "%.1f,%.1f ", d.left(at.Second), d.top(at.Ms))
		}
	}
	d.add(`  <polyline class="line%d" points="%s"/>`, class, strings.TrimSpace(points.String()))
	x := svgLeft + float64(i)*320
	d.add(`  <rect class="key%d" x="%g" y="38" width="14" height="4"/>`, class, x)
	d.add(`  <text class="small" x="%g" y="45">%s</text>`, x+20, escape(l.Name))
}

func (d *drawing) strip(all []Level) {
	d.add(`  <text class="small" x="%g" y="%g" text-anchor="end">hot set</text>`, svgLeft-8, stripTop+12)
	d.add(`  <text class="small" x="%g" y="%g" text-anchor="end">in RAM</text>`, svgLeft-8, stripTop+25)
	for i, l := range all {
		if l.Second < d.from || l.Second > d.to {
			continue
		}
		next := d.to
		if i+1 < len(all) {
			next = min(all[i+1].Second, d.to)
		}
		height := min(max(l.Share, 0), 1) * stripHeight
		d.add(`  <rect class="ice" x="%.1f" y="%.1f" width="%.1f" height="%.1f"/>`, d.left(l.Second), stripTop+stripHeight-height, max(d.left(next)-d.left(l.Second), 0.5), height)
	}
	d.add(`  <rect class="frame" x="%g" y="%g" width="%g" height="%g"/>`, svgLeft, stripTop, svgWidth-svgLeft-svgRight, stripHeight)
}

func escape(s string) string {
	var b strings.Builder
	_ = xml.EscapeText(&b, []byte(s)) // a strings.Builder takes everything
	return b.String()
}

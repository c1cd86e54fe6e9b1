// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"fmt"
	"math"
	"strings"
)

// Picture is a run over time: the tail's p99 of each second, in bands, and how
// much of the hot set was in memory.
type Picture struct {
	Title string  `json:"title"`
	Bands []Band  `json:"bands"`
	Lines []Line  `json:"lines"`
	Strip []Level `json:"residency"`
	Note  string  `json:"note,omitempty"`
}

// Band is a part of the run, in seconds since its start.
type Band struct {
	Name string  `json:"name"`
	From float64 `json:"from"`
	To   float64 `json:"to"`
}

// Line is a latency over time.
type Line struct {
	Name   string  `json:"name"`
	Points []Point `json:"points"`
}

// Point is a latency in milliseconds at a second.
type Point struct {
	Second float64 `json:"second"`
	Ms     float64 `json:"ms"`
}

// Level is the share of the hot set in memory, from 0 to 1, at a second.
type Level struct {
	Second float64 `json:"second"`
	Share  float64 `json:"share"`
}

// LineOf makes a line of the p99 of each second. shift is what lies between
// the start of the run and that of the series, in seconds.
func LineOf(name string, s *Series, shift float64) Line {
	line := Line{Name: name}
	for _, second := range s.Seconds() {
		line.Points = append(line.Points, Point{shift + float64(second.Second), second.P99})
	}
	return line
}

// scale is what both pictures share: seconds from left to right, and powers of
// ten of a millisecond from bottom to top.
type scale struct {
	from, to float64
	low      int // 10^low ms at the bottom
	high     int
}

func (p *Picture) scale() scale {
	s := scale{from: math.Inf(1), to: math.Inf(-1)}
	for _, b := range p.Bands {
		s.from, s.to = min(s.from, b.From), max(s.to, b.To)
	}
	least, most := math.Inf(1), math.Inf(-1)
	for _, l := range p.Lines {
		for _, at := range l.Points {
			if at.Ms > 0 {
				least, most = min(least, at.Ms), max(most, at.Ms)
			}
		}
	}
	if s.from >= s.to {
		s.from, s.to = 0, 1
	}
	if least > most {
		least, most = 0.1, 10
	}
	s.low, s.high = int(math.Floor(math.Log10(least))), int(math.Ceil(math.Log10(most)))
	s.high = max(s.high, s.low+1)
	return s
}

// x and y are places from 0 to 1, from the left and from the top.
func (s scale) x(second float64) float64 { return (second - s.from) / (s.to - s.from) }

func (s scale) y(ms float64) float64 {
	at := (math.Log10(max(ms, 1e-6)) - float64(s.low)) / float64(s.high-s.low)
	return 1 - min(max(at, 0), 1)
}

func powerOfTen(n int) string {
	ms := math.Pow10(n)
	if ms >= 1000 {
		return fmt.Sprintf("%g s", ms/1000)
	}
	return fmt.Sprintf("%g ms", ms)
}

const chartRows = 10

// Chart draws the first line as text, width characters wide, with the bands
// and the residency below it.
func (p *Picture) Chart(width int) string {
	const margin = 9
	columns := max(width-margin, 20)
	s := p.scale()
	worst := make([]float64, columns)
	if len(p.Lines) > 0 {
		for _, at := range p.Lines[0].Points {
			if at.Second >= s.from && at.Second < s.to {
				column := min(int(s.x(at.Second)*float64(columns)), columns-1)
				worst[column] = max(worst[column], at.Ms)
			}
		}
	}
	// A column without a second of its own goes on as the one before it.
	for i := 1; i < columns; i++ {
		if worst[i] == 0 {
			worst[i] = worst[i-1]
		}
	}
	var out strings.Builder
	for row := range chartRows {
		label := ""
		if steps := s.high - s.low; row*steps%chartRows < steps {
			label = powerOfTen(s.high - row*steps/chartRows)
		}
		fmt.Fprintf(&out, "%7s |", label)
		for _, ms := range worst {
			mark := ' '
			if ms > 0 && int(s.y(ms)*chartRows) <= row {
				mark = '#'
			}
			out.WriteRune(mark)
		}
		out.WriteByte('\n')
	}
	names, levels := []byte(strings.Repeat(" ", columns)), []byte(strings.Repeat(" ", columns))
	for _, b := range p.Bands {
		at := int(s.x(b.From) * float64(columns))
		room := int(s.x(b.To)*float64(columns)) - at
		copy(names[at:], fmt.Sprintf("|%-.*s", max(room-1, 0), b.Name))
	}
	for _, l := range p.Strip {
		if l.Second >= s.from && l.Second < s.to {
			levels[min(int(s.x(l.Second)*float64(columns)), columns-1)] = "0123456789*"[int(min(max(l.Share, 0), 1)*10)]
		}
	}
	for i := 1; i < columns; i++ {
		if levels[i] == ' ' {
			levels[i] = levels[i-1]
		}
	}
	fmt.Fprintf(&out, "        +%s\n         %s\n  in RAM %s\n", strings.Repeat("-", columns),
		strings.TrimRight(string(names), " "), strings.TrimRight(string(levels), " "))
	return out.String()
}

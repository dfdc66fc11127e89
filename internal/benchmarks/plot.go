package main

import (
	"bytes"
	"image/color"
	"strconv"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/font"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// linePlot is a plot of lines over a logarithmic axis of whole numbers.
type linePlot struct {
	x, y   string // what the axes say
	at     []int  // where on x the points are
	logY   bool
	series []series
}

// series is one line.
type series struct {
	name   string
	values []float64 // one for each of at
	floor  bool      // what others are compared with: dashed, in the colour of the line before
}

var colours = []color.Color{
	color.RGBA{R: 0x1f, G: 0x77, B: 0xb4, A: 0xff}, color.RGBA{R: 0xd6, G: 0x5f, B: 0x00, A: 0xff},
	color.RGBA{R: 0x2c, G: 0x8c, B: 0x2c, A: 0xff}, color.RGBA{R: 0x7f, G: 0x3f, B: 0xa0, A: 0xff},
}

func (l linePlot) svg(title string) ([]byte, error) {
	p := plot.New()
	sans := font.Font{Typeface: "Liberation", Variant: "Sans"}
	for _, style := range []*draw.TextStyle{
		&p.Title.TextStyle, &p.X.Label.TextStyle, &p.Y.Label.TextStyle, &p.X.Tick.Label, &p.Y.Tick.Label, &p.Legend.TextStyle,
	} {
		style.Font = font.From(sans, style.Font.Size)
	}
	p.Title.Text, p.X.Label.Text, p.Y.Label.Text = title, l.x, l.y
	p.Title.Padding = vg.Points(8)
	p.X.Scale = plot.LogScale{}
	ticks := make([]plot.Tick, len(l.at))
	for i, x := range l.at {
		ticks[i] = plot.Tick{Value: float64(x), Label: strconv.Itoa(x)}
	}
	p.X.Tick.Marker = plot.ConstantTicks(ticks)
	if l.logY {
		p.Y.Scale, p.Y.Tick.Marker = plot.LogScale{}, plot.LogTicks{Prec: -1}
	} else {
		p.Y.Min = 0
	}
	p.Legend.Top = true
	p.Legend.Left = true
	p.Add(plotter.NewGrid())

	colour := -1
	for _, s := range l.series {
		points := make(plotter.XYs, len(l.at))
		for i, x := range l.at {
			points[i] = plotter.XY{X: float64(x), Y: s.values[i]}
		}
		line, dots, err := plotter.NewLinePoints(points)
		if err != nil {
			return nil, err
		}
		if !s.floor {
			colour++
		} else {
			line.Dashes = []vg.Length{vg.Points(4), vg.Points(3)}
		}
		line.Color, line.Width = colours[colour%len(colours)], vg.Points(1.5)
		dots.Color, dots.Shape, dots.Radius = line.Color, draw.CircleGlyph{}, vg.Points(2)
		p.Add(line, dots)
		p.Legend.Add(s.name, line)
	}
	if !l.logY {
		p.Y.Min = 0
		p.Y.Max *= 1.35 // room for the legend
	}
	w, err := p.WriterTo(18*vg.Centimeter, 10*vg.Centimeter, "svg")
	if err != nil {
		return nil, err
	}
	var b bytes.Buffer
	_, err = w.WriteTo(&b)
	return b.Bytes(), err
}

package main

import (
	"bytes"
	"image/color"
	"math"
	"strconv"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/font"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// linePlot is a plot of lines over whole numbers. Both axes are logarithmic.
type linePlot struct {
	x, y   string // what the axes say
	at     []int  // where on x the points are
	series []series
}

// series is one line.
type series struct {
	name   string
	values []float64 // one for each of at
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
	p.Y.Scale, p.Y.Tick.Marker = plot.LogScale{}, plot.LogTicks{Prec: -1}
	p.Legend.Top, p.Legend.Left = true, true
	p.Add(plotter.NewGrid())

	for i, s := range l.series {
		var points plotter.XYs
		for at, x := range l.at {
			if s.values[at] > 0 { // what is not is noise, and has no place on this axis
				points = append(points, plotter.XY{X: float64(x), Y: s.values[at]})
			}
		}
		if len(points) == 0 {
			continue
		}
		line, dots, err := plotter.NewLinePoints(points)
		if err != nil {
			return nil, err
		}
		line.Color, line.Width = colours[i%len(colours)], vg.Points(1.5)
		dots.Color, dots.Shape, dots.Radius = line.Color, draw.CircleGlyph{}, vg.Points(2)
		p.Add(line, dots)
		p.Legend.Add(s.name, line)
	}
	p.Y.Max *= math.Pow(1.3, float64(len(l.series))) // room for the legend, on the logarithmic axis
	w, err := p.WriterTo(18*vg.Centimeter, 10*vg.Centimeter, "svg")
	if err != nil {
		return nil, err
	}
	var b bytes.Buffer
	if _, err = w.WriteTo(&b); err != nil {
		return nil, err
	}
	// Few machines have the font itself.
	return bytes.ReplaceAll(b.Bytes(), []byte("family:Liberation Sans"), []byte("family:Liberation Sans,Arial,sans-serif")), nil
}

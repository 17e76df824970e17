package account

import (
	"encoding/hex"
	"math"
)

// Shade is a colour, and the colour of the text on it. Both have the form #rrggbb.
type Shade struct{ Color, Text string }

type rgb [3]uint8

// The backgrounds of pages, and the colours of text on an accent colour.
var (
	lightPage = rgb{0xff, 0xff, 0xff}
	darkPage  = rgb{0x11, 0x11, 0x11}
	white     = rgb{0xff, 0xff, 0xff}
	black     = rgb{}
)

// minPageContrast is the least contrast of a button to the page (WCAG 2.2, success criterion
// 1.4.11).
const minPageContrast = 3

// Accent returns the shades of an accent colour for light and for dark pages. The colour must
// have the form #rrggbb. If its contrast to a page is too low, the shade for this page is
// darker or lighter. The text on a shade is white or black, whichever has the higher contrast.
// For every colour, this contrast is at least 4.5 (success criterion 1.4.3).
func Accent(color string) (light, dark Shade) {
	parsed := parseColor(color)
	return shade(parsed, lightPage, black), shade(parsed, darkPage, white)
}

// shade mixes color with the colour towards in steps of 1 % until its contrast to the page is
// enough.
func shade(color, page, towards rgb) Shade {
	mixed := color
	for percent := 1; contrast(mixed, page) < minPageContrast; percent++ {
		for i := range mixed {
			mixed[i] = uint8((int(color[i])*(100-percent) + int(towards[i])*percent + 50) / 100) //nolint:gosec // between two bytes
		}
	}
	text := white
	if contrast(mixed, black) > contrast(mixed, white) {
		text = black
	}
	return Shade{mixed.String(), text.String()}
}

func parseColor(color string) (parsed rgb) {
	_, _ = hex.Decode(parsed[:], []byte(color[1:]))
	return parsed
}

func (c rgb) String() string { return "#" + hex.EncodeToString(c[:]) }

// contrast returns the contrast ratio of two colours as in WCAG 2.2, 1 to 21.
func contrast(a, b rgb) float64 {
	high, low := a.luminance(), b.luminance()
	return (max(high, low) + 0.05) / (min(high, low) + 0.05)
}

// luminance returns the relative luminance as in WCAG 2.2, 0 to 1.
func (c rgb) luminance() float64 {
	var linear [3]float64
	for i, value := range c {
		if s := float64(value) / 255; s <= 0.04045 {
			linear[i] = s / 12.92
		} else {
			linear[i] = math.Pow((s+0.055)/1.055, 2.4)
		}
	}
	return 0.2126*linear[0] + 0.7152*linear[1] + 0.0722*linear[2]
}

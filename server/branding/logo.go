package branding

import (
	"bytes"
	"image"
	"image/png"

	"golang.org/x/image/draw"
	_ "golang.org/x/image/webp" // registers the decoder

	"github.com/tributary-hq/tributary/affiliate"
)

const (
	// maxFile is the size of a file in bytes. Calls over REST have the same limit.
	maxFile = 256 << 10
	// maxSide is the width and the height of an uploaded picture in pixels, storedSide that of
	// a stored logo. A small file can have many pixels, so maxSide bounds the memory.
	maxSide, storedSide = 2048, 512
)

// reencode decodes a PNG or WebP file and returns it as a PNG file. Errors: VALIDATION_ERROR.
func reencode(file []byte) ([]byte, error) {
	config, format, err := image.DecodeConfig(bytes.NewReader(file))
	switch {
	case len(file) > maxFile:
		return nil, affiliate.Invalid(affiliate.WholeBody, "must be at most 256 kB")
	case err != nil || format != "png" && format != "webp":
		return nil, affiliate.Invalid(affiliate.WholeBody, "must be a PNG or WebP picture")
	case min(config.Width, config.Height) < 1 || max(config.Width, config.Height) > maxSide:
		return nil, affiliate.Invalid(affiliate.WholeBody, "must be at most 2048 pixels wide and high")
	}
	picture, _, err := image.Decode(bytes.NewReader(file))
	if err != nil {
		return nil, affiliate.Invalid(affiliate.WholeBody, "must be a complete PNG or WebP picture")
	}
	width, height := config.Width, config.Height
	if longest := max(width, height); longest > storedSide {
		width, height = max(1, width*storedSide/longest), max(1, height*storedSide/longest)
	}
	logo := image.NewNRGBA(image.Rect(0, 0, width, height))
	draw.CatmullRom.Scale(logo, logo.Bounds(), picture, picture.Bounds(), draw.Src, nil)
	var out bytes.Buffer
	err = (&png.Encoder{CompressionLevel: png.BestCompression}).Encode(&out, logo)
	return out.Bytes(), err
}

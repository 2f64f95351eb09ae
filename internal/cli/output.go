package cli

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"strconv"
)

// PrintJSON prints a JSON value with indentation. It changes only white space.
func PrintJSON(out io.Writer, value []byte) error {
	var text bytes.Buffer
	if err := json.Indent(&text, value, "", "  "); err != nil {
		return fmt.Errorf("the value is not JSON: %w", err)
	}
	text.WriteByte('\n')
	_, err := text.WriteTo(out)
	return err
}

// PrintJSONLine prints a JSON value as one line.
func PrintJSONLine(out io.Writer, value []byte) error {
	var line bytes.Buffer
	if err := json.Compact(&line, value); err != nil {
		return fmt.Errorf("the value is not JSON: %w", err)
	}
	line.WriteByte('\n')
	_, err := line.WriteTo(out)
	return err
}

// PrintAsJSON prints a value as indented JSON to standard output.
func PrintAsJSON(c *Console, value any) error {
	encoder := json.NewEncoder(c.Out)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", "  ")
	return encoder.Encode(value)
}

// FormatCount returns n followed by thing, which is a noun. It adds an s to the noun unless n is 1.
func FormatCount(n uint64, thing string) string {
	if n == 1 {
		return "1 " + thing
	}
	return FormatUint(n) + " " + thing + "s"
}

func FormatUint(n uint64) string { return strconv.FormatUint(n, 10) }

// FormatPercent formats a fraction as a percentage with one decimal place.
func FormatPercent(part float64) string { return strconv.FormatFloat(100*part, 'f', 1, 64) + "%" }

// Command release writes the software bill of materials of a Go binary to standard output, as
// CycloneDX JSON. The bill lists what the Go toolchain recorded in the binary. The output does
// not depend on when or where the command runs.
//
//	go run . ../../dist/colophon-linux-amd64 v1.2.3
package main

import (
	"debug/buildinfo"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime/debug"
	"strings"

	cyclonedx "github.com/CycloneDX/cyclonedx-go"
)

func main() {
	if err := run(os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "release:", err)
		os.Exit(1)
	}
}

func run(args []string, out io.Writer) error {
	if len(args) != 2 {
		return errors.New("usage: release BINARY VERSION")
	}
	info, err := buildinfo.ReadFile(args[0])
	if err != nil {
		return err
	}
	encoder := cyclonedx.NewBOMEncoder(out, cyclonedx.BOMFileFormatJSON)
	return encoder.SetPretty(true).Encode(bill(info, args[1]))
}

// bill lists the modules of a binary and the standard library that it was built with. version
// is the version that was stamped into the binary, which the toolchain does not record.
func bill(info *debug.BuildInfo, version string) *cyclonedx.BOM {
	bom := cyclonedx.NewBOM()
	main := component(info.Main.Path, version, "")
	main.Type = cyclonedx.ComponentTypeApplication
	main.Licenses = &cyclonedx.Licenses{{License: &cyclonedx.License{ID: "Apache-2.0"}}}
	bom.Metadata = &cyclonedx.Metadata{Component: &main}
	toolchain, _, _ := strings.Cut(info.GoVersion, " ") // GOEXPERIMENT names can follow the version
	components := []cyclonedx.Component{component("std", strings.TrimPrefix(toolchain, "go"), "")}
	references := []string{components[0].BOMRef}
	for _, m := range info.Deps {
		if m.Replace != nil {
			m = m.Replace
		}
		c := component(m.Path, m.Version, m.Sum)
		components = append(components, c)
		references = append(references, c.BOMRef)
	}
	bom.Components = &components
	bom.Dependencies = &[]cyclonedx.Dependency{{Ref: main.BOMRef, Dependencies: &references}}
	return bom
}

func component(path, version, sum string) cyclonedx.Component {
	purl := "pkg:golang/" + path + "@" + version
	c := cyclonedx.Component{
		BOMRef: purl, Type: cyclonedx.ComponentTypeLibrary, Name: path, Version: version, PackageURL: purl,
	}
	if sum != "" {
		c.Properties = &[]cyclonedx.Property{{Name: "go:sum", Value: sum}}
	}
	return c
}

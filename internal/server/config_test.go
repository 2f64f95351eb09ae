package server

import (
	"reflect"
	"strings"
	"testing"

	"github.com/spf13/pflag"
	"github.com/stretchr/testify/require"
)

func TestConfigurationHasOneNameEverywhere(t *testing.T) {
	flags := pflag.NewFlagSet("", pflag.ContinueOnError)
	new(Config).Bind(flags)
	var flagNames, fileNames []string
	flags.VisitAll(func(f *pflag.Flag) { flagNames = append(flagNames, f.Name) })
	for _, field := range reflect.VisibleFields(reflect.TypeFor[Config]()) {
		if name := field.Tag.Get("yaml"); !field.Anonymous && name != "-" {
			fileNames = append(fileNames, name)
		}
	}
	require.ElementsMatch(t, flagNames, fileNames)
}

func TestDefaultsAreValid(t *testing.T) {
	require.NoError(t, Config{}.WithDefaults().validate())
}

func TestConfigurationErrorsNameTheVariable(t *testing.T) {
	given := pflag.NewFlagSet("", pflag.ContinueOnError)
	flagged := Config{}.WithDefaults()
	flagged.Bind(given)
	environment := func(name string) (string, bool) { return "many", strings.HasSuffix(name, "_PAGE") }
	_, err := ResolveConfig("", environment, given)
	require.ErrorContains(t, err, "COLOPHON_MAX_PAGE")
}

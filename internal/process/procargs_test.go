package process

import (
	"encoding/binary"
	"slices"
	"testing"
)

func TestTheEnvironmentOfAProcessOfMacOS(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name  string
		count uint32
		rest  string
		want  []string
	}{
		{
			"as the kernel has it", 2, "/bin/a\x00\x00\x00\x00a\x00-x\x00A=1\x00B=\x00\x00stack_guard=\x00",
			[]string{"A=1", "B="},
		},
		{"an empty argument", 3, "/bin/a\x00\x00a\x00\x00-x\x00A=1\x00", []string{"A=1"}},
		{"an argument like a variable", 2, "/bin/a\x00a\x00A=0\x00A=1\x00", []string{"A=1"}},
		{"no variables", 1, "/bin/a\x00\x00a\x00\x00", nil},
		{"fewer arguments than said", 9, "/bin/a\x00\x00a\x00A=1\x00", nil},
		{"nothing but a path", 0, "/bin/a", nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			arguments := append(binary.NativeEndian.AppendUint32(nil, c.count), c.rest...)
			if got := slices.Collect(environ(arguments)); !slices.Equal(got, c.want) {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
	if got := slices.Collect(environ([]byte{1})); got != nil {
		t.Errorf("of a part of the number: %q", got)
	}
}

package demo

import (
	"errors"
	"slices"
	"testing"

	"github.com/coracle-eks/coracle/internal/upstream"
)

func TestChooseVersions(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		built    []string
		from, to string
		upgrade  bool
	}{
		"all":                               {[]string{"1.33", "1.34", "1.35", "1.36"}, "1.35", "1.36", true},
		"the default alone":                 {[]string{"1.35"}, "1.35", "1.36", false},
		"the default and the one before":    {[]string{"1.34", "1.35"}, "1.35", "1.36", false},
		"two without the default":           {[]string{"1.33", "1.34"}, "1.33", "1.34", true},
		"one without the default":           {[]string{"1.34"}, "1.34", "1.35", false},
		"the newest alone":                  {[]string{"1.36"}, "1.36", "", false},
		"two apart, neither of the default": {[]string{"1.33", "1.36"}, "1.36", "", false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := chooseVersions(func(minor string) (string, error) {
				if slices.Contains(c.built, minor) {
					return "/bundles/" + minor, nil
				}
				return "", upstream.ErrNotBuilt
			})
			if err != nil || got.from.Minor != c.from || got.to.Minor != c.to || got.canUpgrade != c.upgrade ||
				got.kube != "/bundles/"+c.from {
				t.Errorf("from %q to %q, upgrade %v, kube %q: %v", got.from.Minor, got.to.Minor, got.canUpgrade,
					got.kube, err)
			}
		})
	}
	if _, err := chooseVersions(func(string) (string, error) { return "", upstream.ErrNotBuilt }); err == nil {
		t.Error("a tour without any version of Kubernetes")
	}
	damaged := errors.New("damaged")
	if _, err := chooseVersions(func(string) (string, error) { return "", damaged }); !errors.Is(err, damaged) {
		t.Errorf("a version that cannot be read: %v", err)
	}
}

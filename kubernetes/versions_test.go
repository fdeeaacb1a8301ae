package kubernetes

import (
	"bytes"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
)

func TestVersionsAreConsecutiveAndLiveAsEKSPromises(t *testing.T) {
	t.Parallel()
	for i, v := range versions {
		if i > 0 {
			before := versions[i-1]
			if len(v.Minor) != len(before.Minor) || v.Minor <= before.Minor {
				t.Errorf("%s follows %s", v.Minor, before.Minor)
			}
			if !v.Released.After(before.Released) {
				t.Errorf("%s was released on %s, not after %s", v.Minor, v.Released, before.Minor)
			}
		}
		// EKS: 14 months of standard support, then 12 of extended support.
		if want := v.Released.AddDate(0, 14, 0); !v.EndOfStandardSupport.Equal(want) {
			t.Errorf("%s: standard support ends on %s, want %s", v.Minor, v.EndOfStandardSupport, want)
		}
		if want := v.EndOfStandardSupport.AddDate(1, 0, 0); !v.EndOfExtendedSupport.Equal(want) {
			t.Errorf("%s: extended support ends on %s, want %s", v.Minor, v.EndOfExtendedSupport, want)
		}
		if !regexp.MustCompile(`^eks\.[1-9][0-9]*$`).MatchString(v.PlatformVersion) {
			t.Errorf("%s: platform version %q", v.Minor, v.PlatformVersion)
		}
		if _, err := time.Parse(time.RFC3339, v.buildDate); err != nil {
			t.Errorf("%s: build date: %v", v.Minor, err)
		}
		if !strings.HasPrefix(v.Patch(), v.Minor+".") {
			t.Errorf("%s: its module pins Kubernetes %s", v.Minor, v.Patch())
		}
		if want := regexp.MustCompile(`^v` + regexp.QuoteMeta(v.Patch()) + `-eks-[0-9a-f]{7}$`); !want.MatchString(
			v.GitVersion()) {
			t.Errorf("%s: version %q does not match %s", v.Minor, v.GitVersion(), want)
		}
		if got, ok := Lookup(v.Minor); !ok || got != v {
			t.Errorf("Lookup(%q) = %+v, %v", v.Minor, got, ok)
		}
	}
	if _, ok := Lookup(Default); !ok {
		t.Errorf("the default version %s is not in the table", Default)
	}
	for _, unknown := range []string{"", "1.3", "1.32", "1.99", "v1.35", "1.35.4"} {
		if v, ok := Lookup(unknown); ok {
			t.Errorf("Lookup(%q) = %+v", unknown, v)
		}
	}
}

func TestSupport(t *testing.T) {
	t.Parallel()
	v, _ := Lookup("1.33")
	for moment, want := range map[string]Support{
		"2025-06-01T00:00:00Z": StandardSupport,
		"2026-07-28T23:59:59Z": StandardSupport,
		"2026-07-29T00:00:00Z": ExtendedSupport,
		"2027-07-28T23:59:59Z": ExtendedSupport,
		"2027-07-29T00:00:00Z": Unsupported,
	} {
		at, err := time.Parse(time.RFC3339, moment)
		if err != nil {
			t.Fatal(err)
		}
		if got := v.Support(at); got != want {
			t.Errorf("1.33 at %s: %s, want %s", moment, got, want)
		}
	}
}

// The modules that people and tools see are the sources that the program carries.
func TestModulesAreTheEmbeddedSources(t *testing.T) {
	t.Parallel()
	for _, v := range versions {
		for name, embedded := range v.Source() {
			path := filepath.Join("v"+v.Minor, name)
			content, err := os.ReadFile(path)
			if err != nil {
				t.Error(err)
				continue
			}
			if !bytes.Equal(content, embedded) {
				t.Errorf("%s differs from the embedded source", path)
			}
		}
	}
	modules, err := filepath.Glob("v1.*")
	if err != nil {
		t.Fatal(err)
	}
	if len(modules) != len(versions) {
		t.Errorf("modules %v, but %d versions in the table", modules, len(versions))
	}
}

// All of upstream's staging modules come from the same release as k8s.io/kubernetes. kube-openapi is none of them: it
// has no releases, and the commit that upstream's release takes.
func TestModulesPinOneRelease(t *testing.T) {
	t.Parallel()
	replaced := regexp.MustCompile(`(?m)^\s*(k8s\.io/\S+) => (\S+) (\S+)$`)
	for _, v := range versions {
		want := "v0." + strings.TrimPrefix(v.Patch(), "1.")
		matches := replaced.FindAllStringSubmatch(string(v.Source()["go.mod"]), -1)
		if len(matches) < 25 {
			t.Errorf("%s: only %d staging modules are pinned", v.Minor, len(matches))
		}
		for _, match := range matches {
			if match[1] == "k8s.io/kube-openapi" {
				continue
			}
			if match[1] != match[2] || match[3] != want {
				t.Errorf("%s: %s is replaced by %s %s, want %s", v.Minor, match[1], match[2], match[3], want)
			}
		}
	}
}

// The table for users says what the program does.
func TestDocumentedVersions(t *testing.T) {
	t.Parallel()
	document, err := os.ReadFile(filepath.Join("..", "docs", "versions.md"))
	if err != nil {
		t.Fatal(err)
	}
	pinsCloudProvider := regexp.MustCompile(`(?m)^\s*k8s\.io/cloud-provider-aws (\S+)`)
	for _, v := range versions {
		cloudProvider := pinsCloudProvider.FindSubmatch(v.Source()["go.mod"])
		if cloudProvider == nil {
			t.Errorf("%s does not pin cloud-provider-aws", v.Minor)
			continue
		}
		row := "| " + strings.Join([]string{
			v.Minor, v.Patch(), string(cloudProvider[1]), v.PlatformVersion,
			v.Released.Format(time.DateOnly), v.EndOfStandardSupport.Format(time.DateOnly),
			v.EndOfExtendedSupport.Format(time.DateOnly),
		}, " | ") + " |\n"
		if !strings.Contains(string(document), row) {
			t.Errorf("docs/versions.md lacks the row\n%s", row)
		}
	}
	if want := "The default is " + Default + "."; !strings.Contains(string(document), want) {
		t.Errorf("docs/versions.md does not say %q", want)
	}
}

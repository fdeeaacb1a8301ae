package addon

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	ekstypes "github.com/aws/aws-sdk-go-v2/service/eks/types"

	"github.com/coracle-eks/coracle/internal/eventually"
	"github.com/coracle-eks/coracle/test/harness"
)

// install puts an add-on of the user's own, a directory of testdata, into the catalog.
func (c *cluster) install(name, version string) {
	c.t.Helper()
	if err := os.CopyFS(filepath.Join(c.Dir, "addons", name), os.DirFS(filepath.Join("testdata", name))); err != nil &&
		!errors.Is(err, fs.ErrExist) {
		c.t.Fatal(err)
	}
	c.until("the catalog has "+name, func() error {
		_, errs, err := c.Try("", "aws", "eks", "describe-addon-configuration", "--addon-name", name, "--addon-version",
			version)
		if err != nil && !strings.Contains(errs, "ResourceNotFound") && !strings.Contains(errs, "InvalidParameter") {
			return eventually.Never(err)
		}
		return err
	})
}

// private installs the user's own add-on, whose image is not available at first.
func (c *cluster) private() {
	const image = "registry.example.com/greeter"
	c.install("greeter", "v1.0.0")
	c.contains("the catalog", c.aws("eks", "describe-addon-versions", "--addon-name", "greeter", "--output", "json"),
		`"publisher": "Example Corp."`, `"owner": "example.com"`, `"v1.1.0"`)
	c.addon("create-addon", "greeter", "--addon-version", "v1.0.0")
	issue := c.issue("greeter", ekstypes.AddonStatusDegraded, ekstypes.AddonIssueCodeInsufficientNumberOfReplicas,
		image+":v1.0.0")
	c.t.Logf("without its image: %s", *issue.Message)
	c.must("coracle", "images", "load", "--data-dir", c.Dir, harness.PauseArchive(c.t, image+":v1.0.0"))
	a := c.await("greeter", ekstypes.AddonStatusActive)
	if len(a.Health.Issues) > 0 {
		c.t.Errorf("ACTIVE with %s", harness.Text(a.Health))
	}
	// A newer version has no ConfigMap any more, and needs a newer image.
	c.contains("coracle fields", c.fields("--addon", "greeter", "--addon-version", "v1.1.0"),
		"- be deleted:\n      configmap/greeting", "~ change:\n      deployment/greeter")
	c.must("coracle", "images", "load", "--data-dir", c.Dir, harness.PauseArchive(c.t, image+":v1.1.0"))
	c.update("greeter", ekstypes.UpdateStatusSuccessful, "--addon-version", "v1.1.0")
	if out, errs, err := c.Try(c.Config, "kubectl", "get", "configmap/greeting", "-n", "greeter"); err == nil {
		c.t.Errorf("the newer version left %s%s", out, errs)
	}
	// And back.
	c.update("greeter", ekstypes.UpdateStatusSuccessful, "--addon-version", "v1.0.0", "--configuration-values",
		`{"greeting":"ahoy"}`)
	if got := c.kubectl("get", "configmap/greeting", "-n", "greeter", "-o",
		"jsonpath={.data.greeting}"); got != "ahoy" {
		c.t.Errorf("the greeting is %q", got)
	}
	c.addon("delete-addon", "greeter")
	c.gone("greeter")
	if out, errs, err := c.Try(c.Config, "kubectl", "get", "deployment/greeter", "-n", "greeter"); err == nil {
		c.t.Errorf("deleted, but there is %s%s", out, errs)
	}
}

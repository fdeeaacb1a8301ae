package efsmount

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/coracle-eks/coracle/internal/guest/rootfs/boot"
)

// TestOptionsOnFargate has volumes name files of the machine, which mount.efs would read as its root and send away.
func TestOptionsOnFargate(t *testing.T) {
	t.Parallel()
	machine := t.TempDir()
	file := filepath.Join(machine, boot.HostDir, boot.FargateFile)
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for options, want := range map[string]string{
		"tls,iam": "",
		"tls,iam,rolearn=r,jwtpath=/run/host/fargate-token": "not supported on Fargate",
		"tls,iam,awsprofile=p":                              "not supported on Fargate",
		"tls,region=example.com/":                           "is malformed",
		"tls,az=a.example.com/":                             "is malformed",
	} {
		r := &request{options: map[string]string{}, root: machine}
		r.addOptions(options)
		if err := r.check(); want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: %v, want %q", options, err, want)
		}
	}
}

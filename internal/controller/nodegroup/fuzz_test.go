package nodegroup

import (
	"strings"
	"testing"

	"github.com/coracle-eks/coracle/internal/ami"
)

// FuzzUserData shows that what EKS tells a node is in its user data, whatever a launch template has in its own.
func FuzzUserData(f *testing.F) {
	for _, text := range []string{
		"", users, "#!/bin/bash\necho",
		"MIME-Version: 1.0\nContent-Type: multipart/mixed; boundary=\"//\"\n\n--//\nA: b\nA: c\n\nx\n--//--\n",
		"Content-Type: multipart/mixed; boundary=x\n\n--x\n\n--x--\n",
		"[settings.kubernetes]\nmax-pods = 1\n[settings.kubernetes.node-labels]\na = \"b\"\n",
		"settings.kubernetes.node-taints = {a = [\"b:NoSchedule\"]}\n", "settings = 1\n",
	} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, users []byte) {
		config, err := booted.nodeConfig()
		if err != nil {
			t.Fatal(err)
		}
		for family, own := range map[ami.Family]string{ami.AL2: string(booted.bootstrapScript()),
			ami.AL2023: string(config), ami.Bottlerocket: booted.Endpoint} {
			got, err := booted.userData(family, users)
			if err == nil && !strings.Contains(string(got), own) {
				t.Fatalf("%v: the user data\n%s\nhave no\n%s", family, got, own)
			}
		}
	})
}

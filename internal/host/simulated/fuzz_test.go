package simulated

import (
	"encoding/base64"
	"testing"
)

// FuzzUserData shows that the daemon, which reads the user data of simulated machines itself, survives all of them, and
// that a machine that joins a cluster knows which.
func FuzzUserData(f *testing.F) {
	ca := base64.StdEncoding.EncodeToString([]byte("PEM"))
	for _, text := range []string{
		"#!/bin/bash\nset -ex\nB64_CLUSTER_CA=" + ca +
			"\nexport URL='https://x'\n/etc/eks/bootstrap.sh demo --kubelet-extra-args '--node-labels=a=b " +
			"--register-with-taints=k=v:NoSchedule --max-pods=29' \\\n" +
			"  --b64-cluster-ca $B64_CLUSTER_CA --apiserver-endpoint \"${URL}\"\n",
		"#!/bin/bash\na=$b${c}$$\n/etc/eks/bootstrap.sh \"$a\" && echo done\n",
		"MIME-Version: 1.0\nContent-Type: multipart/mixed; boundary=\"//\"\n\n--//\nContent-Type: " +
			"application/node.eks.aws\n\n---\napiVersion: node.eks.aws/v1alpha1\nkind: NodeConfig\nspec:\n  " +
			"cluster:\n    name: demo\n" +
			"  kubelet:\n    config:\n      maxPods: 17\n      registerWithTaints: [{key: k, value: v, effect: " +
			"NoSchedule}]\n    flags: [\"--node-labels=a=b,c=d\"]\n--//--\n",
		"[settings.kubernetes]\ncluster-name = \"demo\"\nmax-pods = 29\n[settings.kubernetes.node-labels]\n\"a\" = " +
			"\"b\"\n[settings.kubernetes.node-taints]\n\"k\" = [\"v:NoSchedule\"]\n",
	} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		n, err := parseUserData(data)
		if err == nil && n != nil && n.cluster == "" {
			t.Fatalf("%q joins no cluster", data)
		}
	})
}

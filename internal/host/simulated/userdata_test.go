package simulated

import (
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"github.com/coracle-eks/coracle/internal/record"
)

func TestUserData(t *testing.T) {
	t.Parallel()
	ca := base64.StdEncoding.EncodeToString([]byte("PEM"))
	type labels = map[string]string
	for name, c := range map[string]struct {
		data string
		want *node // nil joins nothing
		err  string
	}{
		"nothing": {data: ""},
		"too many documents": {data: "apiVersion: node.eks.aws/v1alpha1\nkind: NodeConfig\n" + strings.Repeat("\n---", 101),
			err: "101 documents are more than the 100 that are read"},
		"another script": {data: "#!/bin/bash\nyum install -y nginx\n"},
		"bootstrap.sh": {data: "#!/bin/bash\n/etc/eks/bootstrap.sh demo\n",
			want: &node{cluster: "demo", labels: labels{}}},
		"with everything": {
			data: "#!/bin/bash\nset -ex\nB64_CLUSTER_CA=" + ca +
				"\nAPI_SERVER_URL=https://ABC.gr7.eu-west-1.eks.amazonaws.com\nK8S_CLUSTER_DNS_IP=10.100.0.10\n" +
				"/etc/eks/bootstrap.sh demo --kubelet-extra-args '--node-labels=a=b,eks.amazonaws.com/nodegroup=ng " +
				"--register-with-taints=dedicated=gpu:NoSchedule,x:NoExecute --max-pods=29' \\\n" +
				"  --b64-cluster-ca $B64_CLUSTER_CA --apiserver-endpoint \"${API_SERVER_URL}\" --dns-cluster-ip " +
				"$K8S_CLUSTER_DNS_IP --use-max-pods false\n",
			want: &node{
				cluster: "demo", endpoint: "https://ABC.gr7.eu-west-1.eks.amazonaws.com", authority: []byte("PEM"),
				maxPods: 29,
				labels:  labels{"a": "b", "eks.amazonaws.com/nodegroup": "ng"},
				taints: []corev1.Taint{{Key: "dedicated", Value: "gpu", Effect: "NoSchedule"},
					{Key: "x", Effect: "NoExecute"}},
			},
		},
		"as eksctl and Terraform quote it": {
			data: "#!/bin/bash -xe\nexport CLUSTER='my-cluster'\nsudo /etc/eks/bootstrap.sh \"$CLUSTER\" " +
				"--kubelet-extra-args=\"--node-labels 'a=b' --max-pods 110\" && echo done\n",
			want: &node{cluster: "my-cluster", maxPods: 110, labels: labels{"a": "b"}},
		},
		"MIME with a NodeConfig": {
			data: "MIME-Version: 1.0\nContent-Type: multipart/mixed; boundary=\"//\"\n\n--//\nContent-Type: " +
				"application/node.eks.aws\n\n---\napiVersion: node.eks.aws/v1alpha1\nkind: NodeConfig\nspec:\n  " +
				"cluster:\n" +
				"    name: demo\n    apiServerEndpoint: https://x\n    certificateAuthority: " + ca +
				"\n    cidr: 10.100.0.0/16\n  kubelet:\n    config:\n      maxPods: 17\n" +
				"      registerWithTaints: [{key: k, value: v, effect: NoSchedule}]\n    flags: " +
				"[\"--node-labels=a=b,c=d\"]\n--//--\n",
			want: &node{cluster: "demo", endpoint: "https://x", authority: []byte("PEM"), maxPods: 17,
				labels: labels{"a": "b", "c": "d"},
				taints: []corev1.Taint{{Key: "k", Value: "v", Effect: "NoSchedule"}}},
		},
		"Bottlerocket": {
			data: "[settings.kubernetes]\ncluster-name = \"demo\"\napi-server = \"https://x\"\ncluster-certificate = \"" + ca + "\"\nmax-pods = 29\n[settings.kubernetes.node-labels]\n\"a\" = \"b\"\n[settings.kubernetes.node-taints]\n\"k\" = [\"v:NoSchedule\"]\n\"l\" = \"w:NoExecute\"\n",
			want: &node{cluster: "demo", endpoint: "https://x", authority: []byte("PEM"), maxPods: 29,
				labels: labels{"a": "b"}, taints: []corev1.Taint{{Key: "k", Value: "v", Effect: "NoSchedule"},
					{Key: "l", Value: "w", Effect: "NoExecute"}}},
		},
		"no cluster": {data: "#!/bin/bash\n/etc/eks/bootstrap.sh --use-max-pods false\n",
			err: "CLUSTER_NAME is not defined"},
		"no value": {data: "#!/bin/bash\n/etc/eks/bootstrap.sh demo --b64-cluster-ca\n",
			err: "needs a value"},
		"a broken authority": {data: "#!/bin/bash\n/etc/eks/bootstrap.sh demo --b64-cluster-ca '*'\n",
			err: "no base64"},
		"a broken taint": {
			data: "#!/bin/bash\n/etc/eks/bootstrap.sh demo --kubelet-extra-args --register-with-taints=x=y\n",
			err:  "is no taint"},
		"variables that double": {
			data: "#!/bin/bash\na=" + strings.Repeat("x", 64) + "\n" + strings.Repeat("a=$a$a\n", 20) +
				"/etc/eks/bootstrap.sh $a\n", err: "longer than 128 KiB",
		},
		"a variable in a long line": {
			data: "#!/bin/bash\na=" + strings.Repeat("x", 64) + "\n/etc/eks/bootstrap.sh demo " + strings.Repeat("$a",
				4096) + "\n", err: "longer than 128 KiB",
		},
		"variables that are kept": {
			data: "#!/bin/bash\nz=" + strings.Repeat("x", 127<<10) + "\n" + strings.Repeat("a=$z\n", 20) +
				"/etc/eks/bootstrap.sh demo\n", err: "more than 1024 KiB of text",
		},
		"a long name": {data: "#!/bin/bash\n/etc/eks/bootstrap.sh " + strings.Repeat("x", 101) + "\n",
			err: "has 101 characters"},
		"archives that are thrown away": {data: archives(40, 512<<10), err: "the archives of the user data are more"},
		"settings without end": {
			data: "[settings.kubernetes]\ncluster-name = \"demo\"\n" + strings.Repeat("[[a]]\n", 30_000),
			err:  "settings are more than 128 KiB",
		},
		"lines without end": {
			data: "#!/bin/bash\n" + strings.Repeat("b=$z\n", 300_000) + "/etc/eks/bootstrap.sh demo\n",
			err:  "more than 1024 KiB of text",
		},
		"a NodeConfig of aliases": {
			data: "apiVersion: node.eks.aws/v1alpha1\nkind: NodeConfig\nx: &a " + strings.Repeat("x", 1<<19) +
				"\ny: [" + strings.Repeat("*a,", 100) + "]\n", err: "aliases",
		},
		"Bottlerocket's settings, nested": {
			data: "[settings.kubernetes]\ncluster-name = \"demo\"\n[settings.kubernetes.node-taints." +
				strings.Repeat("a.", 1000) + "a]\n",
		},
		"a broken archive": {data: "MIME-Version: 1.0\nContent-Type: multipart/mixed\n\nx", err: "boundary"},
	} {
		got, err := parseUserData([]byte(c.data))
		if c.err != "" {
			if err == nil || !strings.Contains(err.Error(), c.err) {
				t.Errorf("%s: %v, want %q", name, err, c.err)
			}
			continue
		}
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if got != nil && len(got.taints) == 2 && got.taints[0].Key > got.taints[1].Key { // of a TOML table
			got.taints[0], got.taints[1] = got.taints[1], got.taints[0]
		}
		if diff := cmp.Diff(c.want, got, cmp.AllowUnexported(node{})); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
	plane := record.ControlPlane{Endpoint: "https://abc", CertificateAuthority: []byte("PEM\n")}
	for wrong, n := range map[string]node{
		"":                  {endpoint: "https://ABC/", authority: []byte("PEM")},
		"not at https://x":  {endpoint: "https://x"},
		"unknown authority": {authority: []byte("other")},
	} {
		if got := n.against(plane); wrong == "" && got != "" || !strings.Contains(got, wrong) {
			t.Errorf("%+v: %q, want %q", n, got, wrong)
		}
	}
}

// archives returns user data of n compressed archives, each with size bytes that are in no part, and an empty script.
func archives(n, size int) string {
	var b strings.Builder
	b.WriteString("MIME-Version: 1.0\nContent-Type: multipart/mixed; boundary=x\n\n")
	for range n {
		b.WriteString("--x\nContent-Type: application/gzip\nContent-Transfer-Encoding: base64\n\n")
		var packed bytes.Buffer
		w := gzip.NewWriter(&packed)
		fmt.Fprintf(w, "MIME-Version: 1.0\nContent-Type: multipart/mixed; boundary=y\n\n%s\n--y\n\n#!/bin/sh\n\n--y--\n",
			strings.Repeat("preamble\n", size/9))
		w.Close()
		b.WriteString(base64.StdEncoding.EncodeToString(packed.Bytes()) + "\n")
	}
	b.WriteString("--x--\n")
	return b.String()
}

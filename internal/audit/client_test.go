package audit

import "testing"

func TestCondense(t *testing.T) {
	t.Parallel()
	for agent, want := range map[string]string{
		"kubectl/v1.35.4 (linux/amd64) kubernetes/6f814e4":       "kubectl v1.35.4",
		"kubectl/v1.35.0-eks-1-35 (darwin/arm64) kubernetes/abc": "kubectl v1.35.0-eks-1-35",
		"kube-controller-manager/v1.35.4 (linux/amd64) " +
			"kubernetes/6f814e4/system:serviceaccount:kube-system:daemon-set-controller": "kube-controller-manager/daemon-set-controller",
		"kube-controller-manager/v1.35.4 (linux/amd64) kubernetes/6f814e4/shared-informers":        "kube-controller-manager/shared-informers",
		"kube-controller-manager/v1.35.4 (linux/amd64) kubernetes/6f814e4/kube-controller-manager": "kube-controller-manager v1.35.4",
		"kube-apiserver/v1.35.4 (linux/amd64) kubernetes/6f814e4":                                  "kube-apiserver v1.35.4",
		"kubelet/v1.35.2-eks-efcacff (linux/amd64) kubernetes/c8c4bbd":                             "kubelet v1.35.2-eks-efcacff",
		"vpcLambda":          "vpcLambda",
		"Helm/3.17.0":        "Helm 3.17.0",
		"eksctl/0.215.0":     "eksctl 0.215.0",
		"Go-http-client/2.0": "Go-http-client 2.0",
		"argocd-application-controller/v0.0.0 (linux/amd64) kubernetes/$Format":                                 "argocd-application-controller",
		"manager/v0.0.0 (linux/amd64) kubernetes/$Format/leader-election":                                       "manager/leader-election",
		"HashiCorp/1.0 Terraform/1.9.5":                                                                         "Terraform 1.9.5",
		"OpenAPI-Generator/31.0.0/python":                                                                       "kubernetes-client python 31.0.0",
		"Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/130.0.0.0 Safari/537.36": "a browser",
		"aws-iam-authenticator (coracle)":                                                                       "aws-iam-authenticator",
		"":                                                                                                      "a client without a user agent",
	} {
		if got := condense(agent); got != want {
			t.Errorf("%q: %q, want %q", agent, got, want)
		}
	}
}

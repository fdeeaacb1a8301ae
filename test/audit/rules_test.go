package audit

import (
	"fmt"
	"testing"

	"github.com/coracle-eks/coracle/internal/eventually"
)

// risky are objects that rules of SIEMs look for.
const risky = `
apiVersion: v1
kind: Pod
metadata: {name: risky, namespace: default}
spec:
  hostNetwork: true
  hostPID: true
  hostIPC: true
  volumes: [{name: etc, hostPath: {path: /etc}}]
  containers:
  - name: c
    image: risky
    securityContext: {privileged: true, runAsUser: 0, capabilities: {add: [SYS_ADMIN]}}
---
apiVersion: v1
kind: Service
metadata: {name: risky, namespace: default}
spec: {type: NodePort, ports: [{port: 80}]}
---
apiVersion: networking.k8s.io/v1
kind: Ingress
metadata: {name: risky, namespace: default}
spec: {defaultBackend: {service: {name: risky, port: {number: 80}}}}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: risky}
rules:
- {apiGroups: ["*"], resources: ["*"], verbs: ["*"]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: risky}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: cluster-admin}
subjects: [{apiGroup: rbac.authorization.k8s.io, kind: User, name: eve}]
---
apiVersion: batch/v1
kind: CronJob
metadata: {name: risky, namespace: default}
spec:
  schedule: "0 0 1 1 *"
  jobTemplate: {spec: {template: {spec: {restartPolicy: Never, containers: [{name: c, image: risky}]}}}}
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingWebhookConfiguration
metadata: {name: risky}
webhooks:
- name: risky.example.com
  failurePolicy: Ignore
  sideEffects: None
  admissionReviewVersions: [v1]
  clientConfig: {url: "https://risky.example.com"}
  rules: [{apiGroups: [example.com], apiVersions: [v1], operations: [CREATE], resources: [nothings]}]
`

// The public rules for EKS of Panther and Falco look at members of audit events, which are here as they are there.
func TestRulesOfSIEMsFindWhatHappens(t *testing.T) {
	t.Parallel()
	w := newFixture(t)
	w.must(w.apply(w.admin, risky))
	w.Run(w.admin, "kubectl", "create", "secret", "generic", "risky", "--from-literal=key=value")
	w.Run(w.admin, "kubectl", "get", "secrets", "--all-namespaces")
	w.Run(w.admin, "kubectl", "create", "token", "default")
	w.Run(w.admin, "kubectl", "label", "clusterrole", "system:discovery", "risky=true")
	if out, _, err := w.Try(w.sam, "kubectl", "get", "secret", "risky"); err == nil {
		t.Fatalf("a developer reads a Secret: %s", out)
	}
	const created = `$.stage = "ResponseComplete" && $.responseStatus.code = 201 && $.verb = "create" && ` +
		`$.user.username = "arn:aws:iam::111122223333:root" && $.objectRef.resource = `
	const (
		pod       = created + `"pods" && $.requestObject.spec.`
		container = pod + `containers[0].securityContext.`
		secrets   = `$.objectRef.resource = "secrets" && `
		developer = `$.user.extra.canonicalArn[0] = "arn:aws:iam::111122223333:role/developer"`
	)
	for name, pattern := range map[string]string{
		"a pod on the network of the node": pod + `hostNetwork IS TRUE`,
		"a pod that sees processes":        pod + `hostPID IS TRUE`,
		"a pod with the IPC of the node":   pod + `hostIPC IS TRUE`,
		"a pod with files of the node":     pod + `volumes[0].hostPath.path = "/etc"`,
		"a privileged pod":                 container + `privileged IS TRUE`,
		"a pod with a capability":          container + `capabilities.add[0] = "SYS_ADMIN"`,
		"a pod by its name":                created + `"pods" && $.responseObject.metadata.name = "risky"`,
		"a NodePort":                       created + `"services" && $.requestObject.spec.type = "NodePort"`,
		"an Ingress without TLS":           created + `"ingresses" && $.requestObject.spec.tls NOT EXISTS`,
		"a role with all permissions":      created + `"clusterroles" && $.requestObject.rules[0].verbs[0] = "*"`,
		"a binding of cluster-admin": created +
			`"clusterrolebindings" && $.requestObject.roleRef.name = "cluster-admin"`,
		"a CronJob": created + `"cronjobs" && $.objectRef.name = "risky"`,
		"a webhook": created +
			`"validatingwebhookconfigurations" && $.requestObject.webhooks[0].name = "risky.example.com"`,
		"a token of a service account":   created + `"serviceaccounts" && $.objectRef.subresource = "token"`,
		"a Secret without what is in it": created + `"secrets" && $.level = "Metadata" && $.requestObject NOT EXISTS`,
		"the Secrets of all namespaces":  secrets + `$.verb = "list" && $.requestURI = "/api/v1/secrets?limit=500"`,
		"a Secret that is refused":       secrets + `$.verb = "get" && $.responseStatus.code = 403 && ` + developer,
		"the session of a role":          developer + ` && $.user.extra.sessionName[0] = "sam"`,
		"a role of Kubernetes that is changed": `$.verb = "patch" && $.objectRef.name = "system:discovery" && ` +
			`$.responseStatus.code = 200`,
	} {
		t.Run(name, func(t *testing.T) {
			err := eventually.Try(poll, func() error {
				var found struct{ Events []struct{ Message string } }
				w.AWS(&found, "logs", "filter-log-events", "--log-group-name", "/aws/eks/dev/cluster", "--filter-pattern",
					"{ "+pattern+" }")
				if len(found.Events) == 0 {
					return fmt.Errorf("no event matches { %s }", pattern)
				}
				return nil
			})
			if err != nil {
				t.Error(err)
			}
		})
	}
}

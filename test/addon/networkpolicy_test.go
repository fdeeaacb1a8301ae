package addon

import (
	"fmt"
	"strings"

	"github.com/coracle-eks/coracle/test/harness"
)

// enforcing is the configuration of the add-on vpc-cni in which EKS enforces network policies and logs what they deny.
const enforcing = `{"enableNetworkPolicy":"true","nodeAgent":{"enablePolicyEventLogs":"true"}}`

// policyPods are a server on one node, and three clients on both.
const policyPods = `apiVersion: v1
kind: Namespace
metadata: {name: shop, labels: {team: shop}}
---
apiVersion: v1
kind: Service
metadata: {name: server, namespace: shop}
spec: {selector: {app: server}, ports: [{port: 8000, targetPort: http}]}
---
`

func policyPod(name, app, node string) string {
	return fmt.Sprintf(`apiVersion: v1
kind: Pod
metadata: {name: %s, namespace: shop, labels: {app: %s}}
spec:
  nodeName: %s
  terminationGracePeriodSeconds: 0
  containers:
  - name: agnhost
    image: %s
    args: [netexec, --http-port=8080, --udp-port=-1]
    ports: [{name: http, containerPort: 8080}]
    readinessProbe: {httpGet: {path: /, port: http}, periodSeconds: 1}
---
`, name, app, node, harness.Agnhost)
}

// networkPolicies applies policies with kubectl, and sends packets between pods of both nodes. The add-on vpc-cni
// enforces them already.
func (c *cluster) networkPolicies() {
	nodes := c.Nodes()
	here, there := nodes[0].Metadata.Name, nodes[1].Metadata.Name
	instance := nodes[0].Spec.ProviderID[strings.LastIndexByte(nodes[0].Spec.ProviderID, '/')+1:]
	c.kubectl("apply", "-f", c.file("pods.yaml", policyPods+policyPod("server", "server", here)+
		policyPod("friend", "friend", there)+policyPod("stranger-near", "stranger", here)+
		policyPod("stranger-far", "stranger", there)))
	c.Await("condition=Ready", "pod", "--all", "-n", "shop")
	address := c.kubectl("get", "pod", "server", "-n", "shop", "-o", "jsonpath={.status.podIP}")
	server := "http://" + address + ":8080/hostname"
	fetch := func(pod, url string) error {
		out, errs, err := c.Try(c.Config, "kubectl", "exec", "-n", "shop", pod, "--", "fetch", "-t", "2", url)
		if err != nil || strings.TrimSpace(out) == "" {
			return fmt.Errorf("from %s, %s answers %q: %v %s", pod, url, out, err, errs)
		}
		return nil
	}
	reaches := func(pod, url string) {
		c.t.Helper()
		c.until(pod+" reaches "+url, func() error { return fetch(pod, url) })
	}
	refused := func(pod, url string) {
		c.t.Helper()
		c.until(pod+" does not reach "+url, func() error {
			if fetch(pod, url) == nil {
				return fmt.Errorf("%s reaches %s", pod, url)
			}
			return nil
		})
	}
	all := []string{"friend", "stranger-near", "stranger-far"}
	for _, pod := range all {
		reaches(pod, server)
	}

	// Ingress, by pods and a named port.
	c.kubectl("apply", "-f", c.file("ingress.yaml", `apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata: {name: server, namespace: shop}
spec:
  podSelector: {matchLabels: {app: server}}
  ingress: [{from: [{podSelector: {matchLabels: {app: friend}}}], ports: [{port: http}]}]
`))
	for _, pod := range all[1:] {
		refused(pod, server)
	}
	reaches("friend", server)
	reaches("friend", "http://server.shop:8000/hostname") // a service, by its name
	c.contains("the policy endpoint", c.kubectl("get", "policyendpoints", "-n", "shop", "-o", "yaml"),
		"generateName: server-", "networking.k8s.aws/last-change-trigger-time", "podIP: "+address, "port: 8080",
		"kind: NetworkPolicy")
	c.contains("the policy", c.kubectl("get", "networkpolicy", "server", "-n", "shop", "-o", "yaml"),
		"- networking.k8s.aws/resources")
	c.contains("the log of the agent", c.In(instance, "cat", "/var/log/aws-routed-eni/network-policy-agent.log"),
		"Dest IP: "+address+" Dest Port: 8080 Proto TCP Verdict DENY Direction ingress, Tier NETWORK_POLICY")

	// Egress: to the server and DNS, and nowhere else.
	c.kubectl("apply", "-f", c.file("egress.yaml", `apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata: {name: friend, namespace: shop}
spec:
  podSelector: {matchLabels: {app: friend}}
  policyTypes: [Egress]
  egress:
  - to: [{podSelector: {matchLabels: {app: server}}}]
  - to: [{namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: kube-system}}}]
    ports: [{port: 53, protocol: UDP}, {port: 53}]
`))
	near := "http://" + c.kubectl("get", "pod", "stranger-near", "-n", "shop", "-o", "jsonpath={.status.podIP}") +
		":8080/hostname"
	refused("friend", near)
	reaches("friend", "http://server.shop:8000/hostname")
	reaches("stranger-far", near)

	// What the agent has written stays when it is killed, and the next one goes on.
	c.In(instance, "sh", "-c", "kill -9 $(pgrep -f '[c]oracle-csi aws-network-policy-agent')")
	if err := fetch("stranger-far", server); err == nil {
		c.t.Error("without the agent, a pod is reached that a policy isolates")
	}
	c.kubectl("label", "pod", "stranger-far", "-n", "shop", "app=friend", "--overwrite")
	reaches("stranger-far", server)
	refused("stranger-near", server)

	// The kubelet's probes are of the node, and no policy is about them.
	c.Await("condition=Ready", "pod/server", "-n", "shop")
	c.kubectl("delete", "networkpolicies", "--all", "-n", "shop")
	reaches("stranger-near", server)
	c.until("policy endpoints go with their policies", func() error {
		if left := c.kubectl("get", "policyendpoints", "-n", "shop", "-o", "name"); left != "" {
			return fmt.Errorf("there is %s", left)
		}
		return nil
	})

	// A policy of the whole cluster, which comes before those of namespaces.
	strangers := `{pods: {namespaceSelector: {matchLabels: {team: shop}}, podSelector: {matchLabels: {app: stranger}}}}`
	c.kubectl("apply", "-f", c.file("cluster.yaml", `apiVersion: networking.k8s.aws/v1alpha1
kind: ClusterNetworkPolicy
metadata: {name: no-strangers}
spec:
  tier: Admin
  priority: 10
  subject: {pods: {namespaceSelector: {}, podSelector: {matchLabels: {app: server}}}}
  ingress: [{name: strangers, action: Deny, from: [`+strangers+`]}]
`))
	refused("stranger-near", server)
	reaches("friend", server)
	c.kubectl("delete", "clusternetworkpolicy", "no-strangers")
	reaches("stranger-near", server)
	c.kubectl("delete", "namespace", "shop", "--wait=false")
}

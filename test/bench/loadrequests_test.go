package bench

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"

	"k8s.io/client-go/rest"
)

// furnish makes what is there before the load begins.
func furnish(config *rest.Config, by actor) error {
	s, err := openSession(config.Host, 0)
	if err != nil {
		return err
	}
	defer s.conn.Close()
	s.actor = by
	for _, s.namespace = range corpusNamespaces {
		for n := range 40 {
			// Without replicas: the controllers would be busier than the API server.
			deployment := fmt.Sprintf(
				`{"kind":"Deployment","apiVersion":"apps/v1","metadata":{"name":"api-%d","labels":{"app":"api-%d"}},"spec":{"replicas":0,"selector":{"matchLabels":{"app":"api-%d"}},"template":{"metadata":{"labels":{"app":"api-%d"}},"spec":%s}}}`,
				n, n, n, n, fmt.Sprintf(podSpec, 0))
			configMap := fmt.Sprintf(
				`{"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":"settings-%d","labels":{"app":"api-%d"}},"data":{"refresh":"0"}}`, n, n)
			if err := s.all([4]string{"POST", s.apps("deployments?fieldManager=argocd-controller"), asJSON, deployment},
				[4]string{"POST", s.core("configmaps"), asJSON, configMap}); err != nil {
				return err
			}
		}
	}
	return nil
}

const (
	asJSON       = "application/json"
	asMergePatch = "application/merge-patch+json"
	asStrategic  = "application/strategic-merge-patch+json"
)

// all makes requests in a row.
func (s *session) all(requests ...[4]string) error {
	for _, r := range requests {
		if err := s.do(r[0], r[1], r[2], r[3]); err != nil {
			return err
		}
	}
	return nil
}

func (s *session) core(resource string) string {
	return "/api/v1/namespaces/" + s.namespace + "/" + resource
}
func (s *session) apps(resource string) string {
	return "/apis/apps/v1/namespaces/" + s.namespace + "/" + resource
}

// readSome makes the usual requests of controllers.
func readSome(s *session) error {
	n := s.random.IntN(40)
	return s.all(
		[4]string{"GET", s.core(fmt.Sprintf("configmaps/settings-%d?resourceVersion=0", n))},
		[4]string{"GET", s.core(fmt.Sprintf("pods?labelSelector=app%%3Dapi-%d&limit=20&resourceVersion=0", n))},
		[4]string{"GET", s.apps(fmt.Sprintf("deployments/api-%d?resourceVersion=0", n))},
		[4]string{"GET", "/apis/apps/v1/namespaces/kube-system/daemonsets/aws-node?resourceVersion=0"},
		[4]string{"GET", s.apps(fmt.Sprintf("daemonsets?labelSelector=k8s-app%%3Dagent-%d&resourceVersion=0", n))},
		[4]string{"GET", s.core("serviceaccounts/default?resourceVersion=0")},
	)
}

// reviewAccess asks who may do what, as every server with delegated authorization does, and every console.
func reviewAccess(s *session) error {
	user := fmt.Sprintf("system:serviceaccount:%s:%s", corpusNamespaces[s.random.IntN(6)],
		[]string{"default", "prometheus-k8s", "karpenter"}[s.random.IntN(3)])
	subject := fmt.Sprintf(
		`{"kind":"SubjectAccessReview","apiVersion":"authorization.k8s.io/v1","metadata":{},"spec":{"resourceAttributes":{"namespace":%q,"verb":"get","group":"metrics.k8s.io","version":"v1beta1","resource":"pods","name":"api-%d"},"user":%q,"groups":["system:serviceaccounts","system:serviceaccounts:monitoring","system:authenticated"]}}`,
		s.namespace, s.random.IntN(1000), user)
	rules := fmt.Sprintf(
		`{"kind":"SelfSubjectRulesReview","apiVersion":"authorization.k8s.io/v1","metadata":{},"spec":{"namespace":%q}}`, s.namespace)
	return s.all(
		[4]string{"POST", "/apis/authorization.k8s.io/v1/subjectaccessreviews", asJSON, subject},
		[4]string{"POST", "/apis/authorization.k8s.io/v1/selfsubjectrulesreviews", asJSON, rules},
		[4]string{"POST", "/apis/authorization.k8s.io/v1/selfsubjectrulesreviews", asJSON, rules},
	)
}

var renewTime = regexp.MustCompile(`"renewTime":"[^"]*"`)

// renewLease makes the requests of leader election.
func renewLease(s *session) error {
	leases := "/apis/coordination.k8s.io/v1/namespaces/" + s.namespace + "/leases"
	lease := fmt.Sprintf("%s/controller-%d", leases, s.number)
	if err := s.do("GET", lease, "", ""); err != nil {
		return err
	}
	now := `"renewTime":"` + time.Now().UTC().Format("2006-01-02T15:04:05.000000Z07:00") + `"`
	if !renewTime.Match(s.body.Bytes()) {
		return s.do("POST", leases, asJSON,
			fmt.Sprintf(
				`{"kind":"Lease","apiVersion":"coordination.k8s.io/v1","metadata":{"name":"controller-%d"},"spec":{"holderIdentity":"controller-%d_1","leaseDurationSeconds":15,%s}}`, s.number, s.number, now))
	}
	return s.do("PUT", lease, asJSON, string(renewTime.ReplaceAll(s.body.Bytes(), []byte(now))))
}

// syncConfigMaps makes ConfigMaps as they should be.
func syncConfigMaps(s *session) error {
	n := s.random.IntN(40)
	name := fmt.Sprintf("settings-%d", n)
	object := func(name string) string {
		return fmt.Sprintf(
			`{"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":%q,"labels":{"app":"api-%d"}},"data":{"refresh":"%d"}}`, name, n, s.random.IntN(1e6))
	}
	own := fmt.Sprintf("%s-%d-%d", name, s.number, s.random.IntN(1e6))
	return s.all(
		[4]string{"GET", s.core("configmaps/" + name + "?resourceVersion=0")},
		[4]string{"PUT", s.core("configmaps/" + name), asJSON, object(name)},
		[4]string{"GET", s.core("configmaps?labelSelector=app%3Dapi-" + strconv.Itoa(n) +
			"&limit=10&resourceVersion=0")},
		[4]string{"POST", s.core("configmaps"), asJSON, object(own)},
		[4]string{"PATCH", s.core("configmaps/" + own + "?fieldManager=external-secrets"), asMergePatch,
			`{"data":{"ready":"true"}}`},
		[4]string{"GET", s.core("configmaps/" + own + "?resourceVersion=0")},
		[4]string{"DELETE", s.core("configmaps/" + own)},
	)
}

const podSpec = `{"containers":[{"name":"app","image":"111122223333.dkr.ecr.eu-west-1.amazonaws.com/api:1.4.%d","ports":[{"containerPort":8080}],"env":[{"name":"STAGE","value":"production"}],"resources":{"requests":{"cpu":"250m","memory":"256Mi"}}}]}`

// syncApplication compares much, by applying without effect, and changes a little.
func syncApplication(s *session) error {
	n := s.random.IntN(40)
	path := s.apps(fmt.Sprintf("deployments/api-%d?fieldManager=argocd-controller", n))
	refresh := fmt.Sprintf(`{"metadata":{"annotations":{"argocd.argoproj.io/refresh":"%d"}}}`, s.random.IntN(1e6))
	switch dice := s.random.IntN(100); {
	case dice < 1:
		return s.do("PATCH", path, asStrategic, refresh)
	case dice < 9:
		return s.do("PATCH", path+"&dryRun=All", asStrategic, refresh)
	}
	if err := readSome(s); err != nil {
		return err
	}
	return s.do("GET", s.apps(fmt.Sprintf("deployments?labelSelector=app%%3Dapi-%d&limit=20&resourceVersion=0", n)), "",
		"")
}

// workByHand makes the requests of people.
func workByHand(s *session) error {
	name := fmt.Sprintf("debug-%d-%d", s.number, s.random.IntN(1e6))
	if s.random.IntN(6) > 0 {
		n := s.random.IntN(60)
		return s.all(
			[4]string{"GET", s.core(fmt.Sprintf("pods?labelSelector=app%%3Dapi-%d&limit=500&resourceVersion=0", n))},
			[4]string{"GET", s.apps(fmt.Sprintf("deployments/api-%d", n))},
			[4]string{"GET", s.core(fmt.Sprintf("configmaps/settings-%d", n))},
			[4]string{"POST", "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", asJSON, fmt.Sprintf(
				`{"kind":"SelfSubjectAccessReview","apiVersion":"authorization.k8s.io/v1","metadata":{},"spec":{"resourceAttributes":{"namespace":%q,"verb":"delete","resource":"pods"}}}`, s.namespace)},
		)
	}
	return s.all(
		[4]string{"POST", s.core("pods?fieldManager=kubectl-run"), asJSON,
			fmt.Sprintf(`{"kind":"Pod","apiVersion":"v1","metadata":{"name":%q,"labels":{"run":%q}},"spec":%s}`, name,
				name, fmt.Sprintf(podSpec, 1))},
		[4]string{"PATCH", s.core("pods/" + name + "?fieldManager=kubectl-label"), asMergePatch,
			`{"metadata":{"labels":{"debug":"true"}}}`},
		[4]string{"GET", s.core("pods/" + name)},
		[4]string{"DELETE", s.core("pods/" + name)},
	)
}

// maintain makes the change that the benchmark searches for later.
func maintain(s *session) error {
	s.namespace = "kube-system"
	if s.random.IntN(8) > 0 {
		return s.all([4]string{"GET", s.core("configmaps/aws-auth")}, [4]string{"GET", s.apps("daemonsets/aws-node")})
	}
	daemonSet := `{"kind":"DaemonSet","apiVersion":"apps/v1","metadata":{"name":"aws-node","labels":{"k8s-app":"aws-node"}},"spec":{"selector":{"matchLabels":{"k8s-app":"aws-node"}},"template":{"metadata":{"labels":{"k8s-app":"aws-node"}},"spec":` + fmt.Sprintf(podSpec, 2) + `}}}`
	mapRoles := fmt.Sprintf(
		`- groups:\n  - system:bootstrappers\n  - system:nodes\n  rolearn: arn:aws:iam::111122223333:role/nodes-%d\n  username: system:node:{{EC2PrivateDNSName}}\n`, s.random.IntN(20))
	awsAuth := `{"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":"aws-auth"},"data":{"mapRoles":"` + mapRoles +
		`"}}`
	return s.all(
		[4]string{"POST", s.apps("daemonsets"), asJSON, daemonSet},
		[4]string{"PATCH", s.apps("daemonsets/aws-node?fieldManager=kubectl-set"), asStrategic,
			fmt.Sprintf(`{"spec":{"template":{"metadata":{"annotations":{"release":"%d"}}}}}`, s.random.IntN(1e6))},
		[4]string{"POST", s.core("configmaps"), asJSON, awsAuth},
		[4]string{"PATCH", s.core("configmaps/aws-auth?fieldManager=eksctl"), asMergePatch,
			strings.TrimSuffix(`{"data":{"mapRoles":"`+mapRoles+`"}}`, "\n")},
	)
}

// forbidden makes a request that its user is not allowed to make.
func forbidden(s *session) error {
	return s.do("GET", "/api/v1/namespaces/kube-system/secrets/bootstrap-token-"+strconv.Itoa(s.random.IntN(100)), "",
		"")
}

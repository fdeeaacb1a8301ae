package fargate_test

import (
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
	ekstypes "github.com/aws/aws-sdk-go-v2/service/eks/types"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/coracle-eks/coracle/internal/controller/fargate"
	rules "github.com/coracle-eks/coracle/internal/fargate"
	"github.com/coracle-eks/coracle/internal/fargate/fargatenode"
	guest "github.com/coracle-eks/coracle/internal/guest/fargate"
	webhook "github.com/coracle-eks/coracle/internal/kube/fargate"
	"github.com/coracle-eks/coracle/internal/record"
)

// TestAPodRunsOnAMachineOfItsOwn follows a profile and a pod from their creation to their deletion.
func TestAPodRunsOnAMachineOfItsOwn(t *testing.T) {
	t.Parallel()
	w := newFixture(t)
	p := w.active("fargate")
	if got := w.awsAuth(); !strings.Contains(got, "rolearn: "+role) ||
		!strings.Contains(got, "username: system:node:{{SessionName}}") || !strings.Contains(got, "system:node-proxier") {
		t.Errorf("mapRoles is\n%s", got)
	}
	hook := must(w.kube.AdmissionregistrationV1().MutatingWebhookConfigurations().Get(t.Context(), webhook.Name,
		metav1.GetOptions{}))(t)
	if hook.ManagedFields[0].Manager != "kubectl-client-side-apply" {
		t.Errorf("the webhook is %q's", hook.ManagedFields[0].Manager)
	}

	pod, row := w.runs(w.pod("fargate", "web", func(p *corev1.Pod) {
		p.Spec.Containers[0].Resources.Requests = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("300m")}
	}))
	if pod.Annotations["CapacityProvisioned"] != "0.5vCPU 1GB" ||
		pod.Annotations["Logging"] != "LoggingDisabled: LOGGING_CONFIGMAP_NOT_FOUND" {
		t.Errorf("the annotations are %v", pod.Annotations)
	}
	if pod.Spec.NodeName != row.NodeName || !strings.HasPrefix(row.NodeName, "fargate-ip-10-0-") {
		t.Errorf("it is on %q, its row says %+v", pod.Spec.NodeName, row)
	}
	if first, second, _ := strings.Cut(row.ID, "-"); len(first) != 10 || len(second) != 32 {
		t.Errorf("the capacity is %q", row.ID)
	}
	w.tells(pod, "Scheduled: Successfully assigned fargate/web to "+row.NodeName)
	w.tells(pod, "LoggingDisabled: Disabled logging because aws-logging configmap was not found. "+
		"configmap \"aws-logging\" not found")
	managers := map[string]bool{}
	for _, m := range pod.ManagedFields {
		managers[m.Manager] = true
	}
	if !managers[rules.SchedulerManager] {
		t.Errorf("its fields are managed by %v", managers)
	}
	instance := must(record.Instances(w.store).Get(t.Context(), record.EC2Key(account, region, row.InstanceID)))(t).Value
	eni := must(record.NetworkInterfaces(w.store).Get(t.Context(), record.EC2Key(account, region,
		row.NetworkInterfaceID)))(t).Value
	var config guest.Config
	if err := json.Unmarshal(instance.Fargate.NodeConfig, &config); err != nil {
		t.Fatal(err)
	}
	if config.Cluster != "demo" || config.NodeName != row.NodeName || config.Address != row.Address ||
		config.ServiceCIDR != "10.100.0.0/16" || config.Endpoint != w.server.Host || config.CPU != 500 ||
		config.Memory != 1024 || config.EFSVolumes != nil || config.Logging != nil || config.Version != "1.35" ||
		config.PodUID != string(pod.UID) {
		t.Errorf("its node is to have %+v", config)
	}
	if instance.Fargate.ProfileARN != p.ARN() || instance.Fargate.RoleARN != role || instance.Fargate.Storage != 20 ||
		!slices.Equal(eni.SecurityGroupIDs, []string{"sg-cluster"}) {
		t.Errorf("its machine is %+v with %+v", instance.Fargate, eni)
	}

	w.deletePod(pod)
	w.empty()
	w.remove(p)
	w.gone(p)
	if got := w.awsAuth(); strings.Contains(got, role) {
		t.Errorf("after all, mapRoles is\n%s", got)
	}
}

// gone waits until a profile is.
func (w *fixture) gone(p record.FargateProfile) {
	w.t.Helper()
	w.until("profile "+p.Name+" is gone", func() error {
		if row, err := record.FargateProfiles(w.store).Get(w.t.Context(), p.Key()); err == nil {
			return fmt.Errorf("it is %+v, %+v", row.Value, w.profileState(p))
		}
		return nil
	})
	if s := w.profileState(p); s.ProfileID != "" {
		w.t.Errorf("its state is left: %+v", s)
	}
}

// TestPodsThatCannotRunAreToldWhy has pods that Fargate does not run, and pods that somebody else made for it.
func TestPodsThatCannotRunAreToldWhy(t *testing.T) {
	t.Parallel()
	w := newFixture(t, func(o *fargate.Options) { o.VCPUQuota = 2 })
	w.active("fargate")
	w.active("other", func(p *record.FargateProfile) {
		p.Selectors[0].Labels = map[string]string{"on": "fargate"}
	})
	claim := func(p *corev1.Pod) {
		p.Spec.Volumes = []corev1.Volume{{Name: "persistence", VolumeSource: corev1.VolumeSource{
			PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "files"}}}}
	}
	for name, c := range map[string]struct {
		profile string
		edit    func(*corev1.Pod)
		want    string
	}{
		"privileged": {"fargate", func(p *corev1.Pod) {
			p.Spec.Containers[0].SecurityContext = &corev1.SecurityContext{Privileged: aws.Bool(true)}
		}, "Pod not supported on Fargate: invalid SecurityContext fields: Privileged"},
		"host-network": {"fargate", func(p *corev1.Pod) { p.Spec.HostNetwork = true },
			"Pod not supported on Fargate: fields not supported: HostNetwork"},
		"host-path": {"fargate", func(p *corev1.Pod) {
			p.Spec.Volumes = []corev1.Volume{{Name: "data", VolumeSource: corev1.VolumeSource{
				HostPath: &corev1.HostPathVolumeSource{Path: "/"}}}}
		}, "Pod not supported on Fargate: volumes not supported: data is of an unsupported volume Type"},
		"claim": {"fargate", claim,
			"volumes not supported: persistence not supported because: persistentvolumeclaim"},
		"large": {"fargate", func(p *corev1.Pod) {
			p.Spec.Containers[0].Resources.Requests = corev1.ResourceList{
				corev1.ResourceCPU: resource.MustParse("17")}
		}, "exceed"},
		"beyond-the-quota": {"fargate", func(p *corev1.Pod) {
			p.Spec.Containers[0].Resources.Requests = corev1.ResourceList{
				corev1.ResourceCPU: resource.MustParse("4")}
		}, "Your AWS account has reached the limit on the number of Fargate pods it can run concurrently"},
		"unlabeled": {"fargate", func(p *corev1.Pod) { p.Labels = nil },
			"Misconfigured Fargate Profile: pod does not have profile label eks.amazonaws.com/fargate-profile"},
		"of-no-profile": {"fargate", func(p *corev1.Pod) { p.Labels[rules.ProfileLabel] = "none" },
			"Misconfigured Fargate Profile: fargate profile none blocked for new launches due to: "},
		"of-another-profile": {"fargate", func(p *corev1.Pod) { p.Labels[rules.ProfileLabel] = "other" },
			"fargate profile other blocked for new launches due to: Pod does not match the selectors"},
		"without-the-label": {"other", nil,
			"fargate profile other blocked for new launches due to: Pod does not match the selectors"},
		"in-no-zone": {"fargate", func(p *corev1.Pod) {
			p.Spec.NodeSelector = map[string]string{corev1.LabelTopologyZone: "eu-west-1c"}
		}, "node affinity/selector matches no Fargate node in the subnets of Fargate profile fargate"},
		"for-windows": {"fargate", func(p *corev1.Pod) {
			p.Spec.NodeSelector = map[string]string{corev1.LabelOSStable: "windows"}
		}, "node affinity/selector matches no Fargate node"},
	} {
		edits := []func(*corev1.Pod){}
		if c.edit != nil {
			edits = append(edits, c.edit)
		}
		pod := w.pod(c.profile, name, edits...)
		w.tells(pod, "FailedScheduling: ")
		w.tells(pod, c.want)
		if row := w.row(pod); row.InstanceID != "" {
			t.Errorf("%s has a machine: %+v", name, row)
		}
	}
	core := w.kube.CoreV1()
	refused := must(core.Pods("fargate").Get(t.Context(), "privileged", metav1.GetOptions{}))(t)
	if len(refused.Status.Conditions) != 1 || refused.Status.Conditions[0].Reason != rules.UnsupportedReason {
		t.Errorf("the conditions are %+v", refused.Status.Conditions)
	}

	// A claim appears, is bound to a volume of EFS, and the pod runs.
	must(core.PersistentVolumes().Create(t.Context(), &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: "files"},
		Spec: corev1.PersistentVolumeSpec{
			Capacity:    corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")},
			AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteMany},
			PersistentVolumeSource: corev1.PersistentVolumeSource{CSI: &corev1.CSIPersistentVolumeSource{
				Driver: "efs.csi.aws.com", VolumeHandle: "fs-1", VolumeAttributes: map[string]string{"encryptInTransit": "true"}}},
			MountOptions: []string{"iam"},
		}}, metav1.CreateOptions{}))(t)
	made := must(core.PersistentVolumeClaims("fargate").Create(t.Context(), &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Name: "files"},
		Spec: corev1.PersistentVolumeClaimSpec{
			StorageClassName: aws.String(""), VolumeName: "files",
			AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteMany},
			Resources: corev1.VolumeResourceRequirements{
				Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}},
		}}, metav1.CreateOptions{}))(t)
	pod := must(core.Pods("fargate").Get(t.Context(), "claim", metav1.GetOptions{}))(t)
	w.tells(pod, "PVC files not bound")
	made.Status.Phase = corev1.ClaimBound
	must(core.PersistentVolumeClaims("fargate").UpdateStatus(t.Context(), made, metav1.UpdateOptions{}))(t)
	_, row := w.runs(pod)
	instance := must(record.Instances(w.store).Get(t.Context(), record.EC2Key(account, region, row.InstanceID)))(t).Value
	digest := must(fargatenode.VolumeDigest("fs-1", map[string]string{"encryptInTransit": "true"}, []string{"iam"}))(t)
	if !strings.Contains(string(instance.Fargate.NodeConfig), `"efsVolumes":{"files":"`+digest+`"}`) {
		t.Errorf("its node is to have %s", instance.Fargate.NodeConfig)
	}
}

// TestVolumesAreReplaced replaces the volume of a claim after its pod was admitted, and before it has a machine.
func TestVolumesAreReplaced(t *testing.T) {
	t.Parallel()
	w := newFixture(t)
	w.active("fargate")
	core := w.kube.CoreV1()
	volume := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "files"}, Spec: corev1.PersistentVolumeSpec{
		Capacity:    corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")},
		AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteMany},
		PersistentVolumeSource: corev1.PersistentVolumeSource{CSI: &corev1.CSIPersistentVolumeSource{
			Driver: "efs.csi.aws.com", VolumeHandle: "fs-1"}}}}
	must(core.PersistentVolumes().Create(t.Context(), volume, metav1.CreateOptions{}))(t)
	made := must(core.PersistentVolumeClaims("fargate").Create(t.Context(), &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Name: "files"},
		Spec: corev1.PersistentVolumeClaimSpec{
			StorageClassName: aws.String(""), VolumeName: "files",
			AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteMany},
			Resources: corev1.VolumeResourceRequirements{
				Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}},
		}}, metav1.CreateOptions{}))(t)
	made.Status.Phase = corev1.ClaimBound
	must(core.PersistentVolumeClaims("fargate").UpdateStatus(t.Context(), made, metav1.UpdateOptions{}))(t)

	role := must(record.Roles(w.store).Get(t.Context(), record.RoleKey(account, "pods")))(t)
	if err := record.Roles(w.store).Delete(t.Context(), role); err != nil {
		t.Fatal(err)
	}
	pod := w.pod("fargate", "web", func(p *corev1.Pod) {
		p.Spec.Volumes = []corev1.Volume{{Name: "files", VolumeSource: corev1.VolumeSource{
			PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "files"}}}}
	})
	w.tells(pod, "Failed to assume PodExecutionRole")

	if err := core.PersistentVolumes().Delete(t.Context(), "files", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	must(core.PersistentVolumes().Patch(t.Context(), "files", types.MergePatchType,
		[]byte(`{"metadata":{"finalizers":null}}`), metav1.PatchOptions{}))(t)
	volume.Spec.PersistentVolumeSource = corev1.PersistentVolumeSource{NFS: &corev1.NFSVolumeSource{
		Server: "-aT/var/lib/kubelet/x", Path: "/fstab"}}
	must(core.PersistentVolumes().Create(t.Context(), volume, metav1.CreateOptions{}))(t)
	must(record.Roles(w.store).Create(t.Context(), record.RoleKey(account, "pods"), role.Value))(t)
	w.tells(pod, "Pod not supported on Fargate: PVC files bound to invalid PV files with nil CSI spec")
	if row := w.row(pod); row.InstanceID != "" {
		t.Errorf("the pod has a machine: %+v", row)
	}
}

// TestPodsWaitForAddresses has subnets with three addresses each.
func TestPodsWaitForAddresses(t *testing.T) {
	t.Parallel()
	w := newFixture(t, func(o *fargate.Options) { o.RetryFirst, o.RetryMost = time.Hour, time.Hour })
	w.subnet("subnet-small", "a", "10.0.8.0/29")
	w.subnet("subnet-smaller", "b", "10.0.9.0/29")
	w.active("fargate", func(p *record.FargateProfile) { p.SubnetIDs = []string{"subnet-small", "subnet-smaller"} })
	zones := map[string]int{}
	var pods []*corev1.Pod
	for n := range 6 {
		pod := w.pod("fargate", fmt.Sprint("pod-", n))
		_, row := w.runs(pod)
		zones[row.Zone]++
		pods = append(pods, pod)
	}
	if zones["eu-west-1a"] != 3 || zones["eu-west-1b"] != 3 {
		t.Errorf("pods are in %v", zones)
	}
	const full = "FailedScheduling: The specified subnet does not have enough free addresses"
	late := w.pod("fargate", "late")
	w.tells(late, full)
	later := w.pod("fargate", "later")
	w.tells(later, full)
	w.deletePod(pods[0])
	w.deletePod(pods[1])
	w.runs(late)
	w.runs(later)

	// Another controller knows who waits.
	late = w.pod("fargate", "latest")
	w.tells(late, full)
	w.stop()
	w.start()
	w.deletePod(pods[2])
	w.runs(late)
}

// TestMachinesFail has machines that end before they are nodes, that do not get on, and that die under their pods.
func TestMachinesFail(t *testing.T) {
	t.Parallel()
	w := newFixture(t, func(o *fargate.Options) { o.ProvisionTimeout = time.Second })
	p := w.active("fargate")
	tries := map[string]int{}
	w.faulty(func(m record.FargateMachine) record.Machine {
		w.mu.Lock()
		defer w.mu.Unlock()
		if tries[m.Capacity]++; len(tries) > 2 {
			return record.Machine{}
		}
		return record.Machine{State: ec2types.InstanceStateNameTerminated, Failure: "Server.InternalError: no memory"}
	})
	pod := w.pod("fargate", "unlucky")
	_, row := w.runs(pod)
	w.tells(pod, "FailedScheduling: Server.InternalError: no memory")
	if row.Failure != "" || row.Failures != 0 {
		t.Errorf("it runs with %+v", row)
	}

	w.faulty(func(record.FargateMachine) record.Machine {
		return record.Machine{Failing: "credentials: AssumeRole: AccessDenied"}
	})
	pod = w.pod("fargate", "distrusted")
	w.tells(pod, "Misconfigured Fargate Profile: fargate profile fargate blocked for new launches due to: Failed to "+
		"assume PodExecutionRole; Please make sure the role exists and trusts the eks-fargate-pods.amazonaws.com "+
		"service principal")
	w.tells(pod, "Pod provisioning timed out (will retry)")
	w.faulty(nil)
	w.runs(pod)

	// A machine dies: its pod fails, and the ReplicaSet makes another.
	labels := podOf("fargate", "web").Labels
	must(w.kube.AppsV1().Deployments("fargate").Create(t.Context(), &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: "web"},
		Spec: appsv1.DeploymentSpec{Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: podOf("fargate", "web").Spec},
		}}, metav1.CreateOptions{}))(t)
	only := func() *corev1.Pod {
		var found *corev1.Pod
		w.until("there is a pod", func() error {
			list, err := w.kube.CoreV1().Pods("fargate").List(t.Context(), metav1.ListOptions{LabelSelector: "app=web"})
			if err == nil && len(list.Items) != 1 {
				err = fmt.Errorf("there are %d", len(list.Items))
			}
			if err == nil {
				found = &list.Items[0]
			}
			return err
		})
		return found
	}
	first := only()
	_, row = w.runs(first)
	if err := w.endMachine(t.Context(), record.EC2Key(account, region, row.InstanceID), "killed"); err != nil {
		t.Fatal(err)
	}
	w.until("another takes its place", func() error {
		if only().UID == first.UID {
			return fmt.Errorf("it is the first")
		}
		return nil
	})
	w.tells(first, "FargateMachineTerminated: The Fargate machine of the pod has ended")
	w.runs(only())

	// The pods of a profile that is deleted end with it.
	w.remove(p)
	w.gone(p)
	w.empty()
}

// TestRolesThatAreNotLetInLaunchNothing takes the role out of aws-auth, and deletes it.
func TestRolesThatAreNotLetInLaunchNothing(t *testing.T) {
	t.Parallel()
	w := newFixture(t)
	w.active("fargate")
	must(w.kube.CoreV1().ConfigMaps("kube-system").Patch(t.Context(), "aws-auth", types.MergePatchType,
		[]byte(`{"data":{"mapRoles":"[]\n"}}`), metav1.PatchOptions{}))(t)
	pod := w.pod("fargate", "web")
	w.tells(pod, "FailedScheduling: Misconfigured Fargate Profile: fargate profile fargate blocked for new launches due "+
		"to: Pod execution role is not found in auth config or does not have all required permissions for launching "+
		"fargate pods.")
	if got := w.awsAuth(); got != "[]\n" {
		t.Errorf("somebody put the role back:\n%s", got)
	}
	must(w.kube.CoreV1().ConfigMaps("kube-system").Patch(t.Context(), "aws-auth", types.MergePatchType,
		[]byte(`{"data":{"mapRoles":"- rolearn: `+role+`\n  username: system:node:{{SessionName}}\n"}}`),
		metav1.PatchOptions{}))(t)
	w.runs(pod)

	row := must(record.Roles(w.store).Get(t.Context(), record.RoleKey(account, "pods")))(t)
	if err := record.Roles(w.store).Delete(t.Context(), row); err != nil {
		t.Fatal(err)
	}
	w.tells(w.pod("fargate", "later"), "Failed to assume PodExecutionRole")
	w.becomes(w.profile("another"), ekstypes.FargateProfileStatusCreateFailed)
}

// TestProfilesShareTheirRole has profiles in a cluster with access entries.
func TestProfilesShareTheirRole(t *testing.T) {
	t.Parallel()
	w := newFixture(t)
	must(record.Clusters(w.store).Modify(t.Context(), w.cluster.Key(), func(c *record.Cluster) error {
		c.AuthenticationMode = ekstypes.AuthenticationModeApi
		return nil
	}))(t)
	a, b := w.active("a"), w.active("b")
	key := record.AccessEntryKey(account, region, "demo", role)
	entry := must(record.AccessEntries(w.store).Get(t.Context(), key))(t).Value
	if entry.Type != "FARGATE_LINUX" || w.awsAuth() != "" {
		t.Errorf("the entry is %+v, mapRoles %q", entry, w.awsAuth())
	}
	w.runs(w.pod("a", "web"))
	w.runs(w.pod("b", "web"))
	w.remove(a)
	w.gone(a)
	if _, err := record.AccessEntries(w.store).Get(t.Context(), key); err != nil {
		t.Errorf("the entry is gone with the first profile: %v", err)
	}
	if n := len(must(record.FargatePods(w.store).List(t.Context(), ""))(t)); n != 1 {
		t.Errorf("%d pods are left", n)
	}
	w.remove(b)
	w.gone(b)
	if _, err := record.AccessEntries(w.store).Get(t.Context(), key); err == nil {
		t.Error("the entry is left")
	}
	w.empty()

	// A role of nodes is none of pods.
	must(record.AccessEntries(w.store).Create(t.Context(), key, record.AccessEntry{ClusterID: w.cluster.ID,
		PrincipalARN: role, Type: "EC2_LINUX"}))(t)
	c := w.profile("c")
	w.becomes(c, ekstypes.FargateProfileStatusCreateFailed)
	if s := w.profileState(c); s.Issues[0].Code != ekstypes.FargateProfileIssueCodePodExecutionRoleAlreadyInUse {
		t.Errorf("the issue is %+v", s.Issues)
	}
	w.remove(c)
	w.gone(c)
	if _, err := record.AccessEntries(w.store).Get(t.Context(), key); err != nil {
		t.Errorf("the entry of nodes is gone: %v", err)
	}
}

// TestManyPodsAtOnce has more pods than workers, spread over zones, while the API server restarts.
func TestManyPodsAtOnce(t *testing.T) {
	t.Parallel()
	// A machine that could not join while the API server was away is given up early.
	w := newFixture(t, func(o *fargate.Options) { o.ProvisionTimeout = 20 * time.Second })
	w.active("fargate")
	const pods = 60
	labels := podOf("fargate", "web").Labels
	spec := podOf("fargate", "web").Spec
	spec.TopologySpreadConstraints = []corev1.TopologySpreadConstraint{{MaxSkew: 1,
		TopologyKey: corev1.LabelTopologyZone, WhenUnsatisfiable: corev1.DoNotSchedule,
		LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}}}}
	must(w.kube.AppsV1().Deployments("fargate").Create(t.Context(), &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: "web"},
		Spec: appsv1.DeploymentSpec{Replicas: aws.Int32(pods), Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: spec},
		}}, metav1.CreateOptions{}))(t)
	w.until("some run", func() error {
		rows := must(record.FargatePods(w.store).List(t.Context(), ""))(t)
		if len(rows) < 10 {
			return fmt.Errorf("there are %d", len(rows))
		}
		return nil
	})
	w.server.Restart()
	w.until("all run", func() error {
		zones, machines := map[string]int{}, map[string]bool{}
		for _, row := range must(record.FargatePods(w.store).List(t.Context(), ""))(t) {
			if row.Value.Bound {
				zones[row.Value.Zone]++
				machines[row.Value.InstanceID] = true
			}
		}
		if zones["eu-west-1a"] != pods/2 || zones["eu-west-1b"] != pods/2 || len(machines) != pods {
			return fmt.Errorf("they are in %v on %d machines", zones, len(machines))
		}
		return nil
	})
	// No garbage collector runs: whoever deletes the Deployment leaves a ReplicaSet, which makes pods.
	must(w.kube.AppsV1().Deployments("fargate").Patch(t.Context(), "web", types.MergePatchType,
		[]byte(`{"spec":{"replicas":0}}`), metav1.PatchOptions{}))(t)
	w.until("the pods are gone", func() error {
		left := must(w.kube.CoreV1().Pods("fargate").List(t.Context(), metav1.ListOptions{}))(t)
		if len(left.Items) > 0 {
			return fmt.Errorf("there are %d", len(left.Items))
		}
		return nil
	})
	w.empty()
}

// TestPatchEvictsPods evicts pods, one of which a budget keeps.
func TestPatchEvictsPods(t *testing.T) {
	t.Parallel()
	w := newFixture(t)
	w.active("fargate")
	free, kept := w.pod("fargate", "free"), w.pod("fargate", "kept")
	w.runs(free)
	kept, _ = w.runs(kept)
	must(w.kube.PolicyV1().PodDisruptionBudgets("fargate").Create(t.Context(), &policyv1.PodDisruptionBudget{
		ObjectMeta: metav1.ObjectMeta{Name: "kept"},
		Spec: policyv1.PodDisruptionBudgetSpec{MinAvailable: &intstr.IntOrString{IntVal: 1},
			Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "kept"}}},
	}, metav1.CreateOptions{}))(t)
	w.until("the budget counts", func() error {
		b, err := w.kube.PolicyV1().PodDisruptionBudgets("fargate").Get(t.Context(), "kept", metav1.GetOptions{})
		if err == nil && b.Status.ExpectedPods != 1 {
			err = fmt.Errorf("its status is %+v", b.Status)
		}
		return err
	})
	if n, err := w.controller.Patch(t.Context(), w.cluster, "", 3*time.Second); err != nil || n != 2 {
		t.Fatalf("%d pods are to leave: %v", n, err)
	}
	w.tells(kept, `ScheduledTermination: EKS Fargate Pod Scheduled Termination: {"clusterName":"demo",`+
		`"fargateProfileName":"fargate","podName":"kept","podNamespace":"fargate","evictErrorMessage":"Cannot evict pod`)
	at := regexp.MustCompile(`"scheduledTerminationTime":"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z\[UTC]"}$`)
	if all := w.events(kept); !slices.ContainsFunc(all, at.MatchString) {
		t.Errorf("no event has a time as EKS writes it: %q", all)
	}
	w.empty()
}

// TestAClusterThatIsGoneLeavesNothing deletes the records of a cluster.
func TestAClusterThatIsGoneLeavesNothing(t *testing.T) {
	t.Parallel()
	w := newFixture(t)
	p := w.active("fargate")
	w.runs(w.pod("fargate", "web"))
	w.remove(p)
	plane := must(record.ControlPlanes(w.store).Get(t.Context(), w.cluster.Key()))(t)
	if err := record.ControlPlanes(w.store).Delete(t.Context(), plane); err != nil {
		t.Fatal(err)
	}
	row := must(record.Clusters(w.store).Get(t.Context(), w.cluster.Key()))(t)
	if err := record.Clusters(w.store).Delete(t.Context(), row); err != nil {
		t.Fatal(err)
	}
	w.gone(p)
	w.until("no machine is left", func() error {
		rows := must(record.FargatePods(w.store).List(t.Context(), ""))(t)
		enis := must(record.NetworkInterfaces(w.store).List(t.Context(), ""))(t)
		if len(rows)+len(enis) > 0 {
			return fmt.Errorf("there are %d pods, %d network interfaces", len(rows), len(enis))
		}
		return nil
	})
}

// TestPodsAreBoundElsewhere has a pod that its administrator binds to another node.
func TestPodsAreBoundElsewhere(t *testing.T) {
	t.Parallel()
	w := newFixture(t)
	w.active("fargate")
	w.faulty(func(record.FargateMachine) record.Machine { return record.Machine{Failing: "not yet"} })
	pod := w.pod("fargate", "web")
	w.tells(pod, "FailedScheduling: not yet")
	w.kubelet.Node("elsewhere", "", nil)
	if err := w.kube.CoreV1().Pods("fargate").Bind(t.Context(), &corev1.Binding{
		ObjectMeta: metav1.ObjectMeta{Name: "web"},
		Target:     corev1.ObjectReference{Kind: "Node", Name: "elsewhere"}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	w.until("its machine is gone", func() error {
		if row := w.row(pod); row.UID != "" {
			return fmt.Errorf("it has %+v", row)
		}
		return nil
	})
}

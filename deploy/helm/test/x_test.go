package x
import (
 _ "helm.sh/helm/v3/pkg/lint"
 _ "helm.sh/helm/v3/pkg/engine"
 _ "helm.sh/helm/v3/pkg/chart/loader"
 _ "k8s.io/api/apps/v1"
 _ "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1"
 _ "github.com/stretchr/testify/require"
 _ "sigs.k8s.io/yaml"
)

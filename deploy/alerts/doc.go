// Package alerts tests the alert rules in this folder, the dashboards in deploy/dashboards
// and the sample configuration in deploy/prometheus. It runs promtool on them, and compares
// the metrics that they name with those that the processes of the service export.
package alerts

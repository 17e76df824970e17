// Package alerts tests the alert rules in this folder, the dashboards in deploy/dashboards
// and the sample configuration in deploy/prometheus. It runs promtool on these files, and compares
// the metrics in the files with the metrics that the processes of the service export.
package alerts

from tersely.launch import launch

launch()

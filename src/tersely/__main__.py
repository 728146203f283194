from tersely.cli import main

main()

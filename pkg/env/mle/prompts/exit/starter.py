import os

# The data are in the folder that this environment variable names.
PUBLIC_RESOURCE_PATH = os.environ.get('PUBLIC_RESOURCE_PATH')


def main():
    pass


if __name__ == '__main__':
    main()
